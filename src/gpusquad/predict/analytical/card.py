"""A GPU model as the offline estimate sees it: its ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gpusquad.model.errors import Invalid

Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CardRoofline:
    """The ceilings of a GPU model: measured by calibration, else from its data sheet."""

    name: str
    memory_bytes: int
    sms: int
    bandwidth: float
    """Bytes per second of device memory: measured with a large copy, else from the data sheet."""
    l2_bytes: int
    matmul_flops: Mapping[str, float]
    """Arithmetic type -> FLOP/s: measured with a large product, else from the data sheet."""
    vector_flops: float
    launch_us: float = 3.0
    """Gap between dependent small kernels in a stream, as a framework launches them."""
    host_op_us: float = 6.0
    """Host time of the framework to issue one op, for steps that are not captured in a graph."""
    link_bandwidth: float = 12e9
    """Bytes per second between the cards of a gang, for all-reduce."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """Measured efficiency curves, such as "matmul.bf16": ((log2 of the work, ratio of the ceiling), …)."""
    measured: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain["matmul_flops"] = dict(self.matmul_flops)
        plain["curves"] = {name: [list(point) for point in curve] for name, curve in self.curves.items()}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> CardRoofline:
        """From plain JSON. Unknown keys are ignored, so that newer files can be read."""
        known_fields = {each.name for each in fields(cls)}
        values = {name: value for name, value in plain.items() if name in known_fields}
        curves = values.pop("curves", {})
        values["curves"] = {name: tuple((float(x), float(y)) for x, y in curve) for name, curve in curves.items()}
        try:
            return cls(**values)
        except TypeError as error:
            raise Invalid("card", str(error)) from error


def known(name: str) -> CardRoofline | None:
    """A shipped card by the name its driver reports."""
    from gpusquad.predict.analytical.cards import find

    return find(name)
