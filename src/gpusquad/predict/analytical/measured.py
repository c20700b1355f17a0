"""Op times on a measured card: looked up among microbenchmarks of the same kind, not computed from ceilings.

Every measurement is stored as the ratio of its time to what the ceilings alone would allow. A shape between measured
ones needs only this slowly changing ratio. A shape far outside them still scales with its arithmetic and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from typing import Any

import numpy as np

from gpusquad.predict.analytical.card import CardRoofline
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.training import OPTIMISERS

Samples = tuple[tuple[float, ...], ...]
NEAREST = 18
"""Number of measurements used to estimate a shape."""
_PRODUCTS = ("matmul", "conv", "attention")
RIDGE = 0.02
"""Regularisation that keeps a plane through few points flat."""
_LIKE = {
    "fp16": ("bf16",),
    "tf32": ("fp32",),
    "fp32": ("tf32",),
    "fp64": ("fp32",),
    "fp8": ("bf16",),
    "int8": ("bf16",),
}
"""Types to look up instead if one was not measured."""
_ISSUE, _REFERENCE = "issue.", ".reference"
"""Families of host time, and of the shapes it is compared with."""
_MUCH_LIKE = {
    "matmul.tt": ("matmul.nt",),
    "matmul.tt.odd": ("matmul.nt.odd",),
    "bmm.tt": ("bmm.nt",),
    **{f"lstm.{way}.odd": (f"lstm.{way}",) for way in ("forward", "backward")},
}
"""Names to look up instead if one was not measured."""


@dataclass(frozen=True)
class MeasuredCard(CardRoofline):
    """A card with its microbenchmarks."""

    samples: Mapping[str, Samples] = field(default_factory=dict)
    """Family -> rows of numbers. The last number of a row is the microseconds; ``features`` defines the others."""
    host: Mapping[str, float] = field(default_factory=dict)
    """Host microseconds of the framework for one op of a family, forward and (".backward") backward."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """Constants, such as the bytes a process needs before its first tensor."""
    processor: str = ""
    """Processor of the host, as returned by ``pace.processor``."""

    def to_dict(self) -> dict[str, Any]:
        plain = super().to_dict()
        plain["samples"] = {name: [list(row) for row in rows] for name, rows in self.samples.items()}
        plain["host"], plain["constants"], plain["processor"] = dict(self.host), dict(self.constants), self.processor
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> MeasuredCard:
        base = CardRoofline.from_dict({name: value for name, value in plain.items() if name != "samples"})
        rows = {name: tuple(tuple(map(float, row)) for row in rows) for name, rows in plain.get("samples", {}).items()}
        values = {name: getattr(base, name) for name in CardRoofline.__dataclass_fields__}
        return cls(
            **values,
            samples=rows,
            host=dict(plain.get("host", {})),
            constants=dict(plain.get("constants", {})),
            processor=plain.get("processor", ""),
        )

    @cached_property
    def families(self) -> dict[str, Family]:
        """The samples, prepared for lookup."""
        return {
            name: Family.of(name, rows, self)
            for name, rows in self.samples.items()
            if not name.startswith(("workspace.", _ISSUE))
        }

    def family(self, op: Op) -> Family | None:
        """Look up an op under its own name and type, else under a similar one."""
        return _find(self.families, op, () if op.kind in _PRODUCTS else ("pointwise",))

    @cached_property
    def _issues(self) -> dict[str, Family]:
        """Host time of library calls by shape."""
        return {
            name.removeprefix(_ISSUE): Family.of_host(name.removeprefix(_ISSUE), rows)
            for name, rows in self.samples.items()
            if name.startswith(_ISSUE) and not name.endswith(_REFERENCE)
        }

    def issue(self, op: Op) -> float | None:
        """Host microseconds of the library call for an op of this shape, alone. None: not measured."""
        family = _find(self._issues, op)
        return None if family is None else family.ratio(op)

    def issue_reference_us(self, op: Op, forward: bool = False) -> float:
        """The same for the shape with which the host table was measured. ``forward``: for its forward call."""
        root, layout = (*op.name.split("."), "")[:2]
        if forward:
            layout = {"conv": "forward"}.get(root, "nt")
        rows = self.samples.get(f"{_ISSUE}{root}.{layout}{_REFERENCE}", ())
        return sum(row[-1] for row in rows) / len(rows) if rows else 0.0


@dataclass(frozen=True)
class Family:
    """Measurements of one kind of op in one type."""

    points: np.ndarray
    """One row per measurement: the features that make shapes similar, as powers of two."""
    ratios: np.ndarray
    """Logarithm of the ratio of the time to what the ceilings allow."""

    @classmethod
    def of(cls, name: str, rows: Samples, card: CardRoofline) -> Family:
        """From the rows of a calibration."""
        ops = [_op(name, row) for row in rows]
        points = np.array([features(op) for op in ops])
        bases = np.array([base_us(op, card) for op in ops])
        return cls(points, np.log(np.array([row[-1] for row in rows]) / bases))

    @classmethod
    def of_host(cls, name: str, rows: Samples) -> Family:
        """The same for the host, which has no ceilings: the microseconds themselves."""
        points = np.array([features(_op(name, row)) for row in rows])
        return cls(points, np.log(np.array([row[-1] for row in rows])))

    def ratio(self, op: Op) -> float:
        """Ratio of the time to what the ceilings allow: a plane through the nearest measurements, weighted by distance
        and limited to their range.
        """
        away = self.points - np.array(features(op))
        distances = np.sqrt((away**2).sum(axis=1))
        nearest = np.argsort(distances)[:NEAREST]
        reach = max(distances[nearest[-1]], 1e-6) * 1.01
        weights = (1 - (distances[nearest] / reach) ** 3) ** 3 / (0.3 + distances[nearest]) ** 2 + 1e-9
        ratios, away = self.ratios[nearest], away[nearest]
        mean = float((weights * ratios).sum() / weights.sum())
        design = np.hstack((np.ones((len(nearest), 1)), away))
        scaled = design * weights[:, None]
        ridge = RIDGE * weights.sum() * np.eye(design.shape[1])
        ridge[0, 0] = 0.0
        at = np.linalg.solve(design.T @ scaled + ridge, scaled.T @ (ratios - mean))[0] + mean
        return float(np.exp(np.clip(at, ratios.min(), ratios.max())))


def op_us(op: Op, card: CardRoofline) -> float:
    """Device time of one op on a measured card, for all of its ``count``."""
    if not op.kernels:
        return 0.0
    family = card.family(op) if isinstance(card, MeasuredCard) else None
    ratio = family.ratio(op) if family is not None else 1.0
    return op.count * ratio * base_us(op, card)


def _find(families: Mapping[str, Family], op: Op, last: tuple[str, ...] = ()) -> Family | None:
    for name in (op.name, *_MUCH_LIKE.get(op.name, ()), *last):
        for dtype in (op.dtype, *_LIKE.get(op.dtype, ())):
            if (found := families.get(f"{name}.{dtype}")) is not None:
                return found
    return None


def base_us(op: Op, card: CardRoofline) -> float:
    """The time that the ceilings alone would allow."""
    work = op.flops / card.matmul_flops.get(op.dtype, card.vector_flops) if op.kind in _PRODUCTS else 0.0
    moving = op.moved_bytes / card.bandwidth
    if op.kind == "conv":  # converted to the library's layout and back, unless it is a product of pixels
        return card.launch_us + 1e6 * (work + moving * (1 if _is_product(op) or op.shape[-1] > 1 else 3))
    if op.name.startswith(
        "lstm"
    ):  # for every time step a product and what follows from it; each waits for the one before
        return 2 * op.shape[0] * card.launch_us + 1e6 * max(work, moving)
    return card.launch_us + 1e6 * max(work, moving)


def features(op: Op) -> tuple[float, ...]:
    """The features by which two ops of a family reach similar fractions of the ceilings. A difference of 1 is a factor
    of two.
    """
    if op.kind == "conv":
        batch, cin, height, width, cout, kh, kw, stride, groups = op.shape
        pixels = batch * -(-height // stride) * -(-width // stride)
        apart = 8.0 if groups > 1 else 3.0 if _is_product(op) else 0.0  # other kinds of work
        return (
            0.4 * log2(pixels),
            log2(cin / groups),
            log2(cout / groups),
            1.2 * log2(kh * kw),
            1.5 * log2(stride),
            0.2 * log2(height * width),
            apart,
            0.3 * log2(groups),
        )
    if op.kind in ("matmul", "attention"):
        return tuple(log2(max(1, each)) for each in op.shape)
    return (log2(max(1.0, op.moved_bytes)), *(0.5 * log2(max(1, each)) for each in op.shape))


def _is_product(op: Op) -> bool:
    return op.shape[5] * op.shape[6] == 1 and op.shape[7] == 1


def _op(name: str, row: Sequence[float]) -> Op:
    """The op that a row of a calibration measured."""
    kind, *rest, dtype = name.split(".")
    wide = 4 if dtype in ("fp32", "tf32") else 2
    shape: Any = tuple(round(each) for each in row[:-1])
    label = ""
    if kind == "lstm":
        batch, length, given, hidden = shape
        label, kind, shape = kind, "matmul", (length, batch, 4 * hidden, given + hidden)
    times = 2.0 if rest[:1] == ["backward"] else 1.0
    if kind in ("matmul", "bmm"):
        batch, m, n, k = shape
        flops, read, written, kind = 2.0 * batch * m * n * k, batch * (m * k + n * k), batch * m * n, "matmul"
    elif kind == "conv":
        batch, cin, height, width, cout, kh, kw, stride, groups = shape
        written = batch * cout * -(-height // stride) * -(-width // stride)
        flops, read = (
            2.0 * written * cin * kh * kw / groups,
            batch * cin * height * width + cout * cin * kh * kw // groups,
        )
    elif kind == "attention":
        heads, q_len, k_len, each = shape
        flops, read, written = (
            4.0 * heads * q_len * k_len * each,
            heads * each * (q_len + 2 * k_len),
            heads * each * q_len,
        )
        times, flops = (2.0, 1.25 * flops) if times > 1 else (times, flops)
        flops /= 2 if "causal" in rest else 1
    else:
        rule = OPTIMISERS.get(kind)
        moved = row[0] * (rule.reads + rule.writes) if rule else row[0]
        return Op("vector", 0.0, moved, 0.0, dtype, shape[1:], kind)  # pyright: ignore[reportArgumentType]
    return Op(kind, times * flops, times * wide * read, times * wide * written, dtype, shape, label)  # pyright: ignore[reportArgumentType]
