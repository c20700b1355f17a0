"""Op times on a card that was measured: looked up among microbenchmarks of the same kind, not computed from ceilings.

Every measurement is kept as its time over what the ceilings alone would allow, so that a shape between those measured
needs only the slowly changing ratio, and one far outside them still scales with its arithmetic and bytes."""

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
"""Measurements a shape is judged by."""
_PRODUCTS = ("matmul", "conv", "attention")
RIDGE = 0.02
"""How strongly a plane through few points is kept flat."""
_LIKE = {
    "fp16": ("bf16",),
    "tf32": ("fp32",),
    "fp32": ("tf32",),
    "fp64": ("fp32",),
    "fp8": ("bf16",),
    "int8": ("bf16",),
}
"""Types to look under where one was not measured."""
_ISSUE, _REFERENCE = "issue.", ".reference"
"""Families of the host's time, and of the shapes it is compared with."""
_MUCH_LIKE = {
    "matmul.tt": ("matmul.nt",),
    "matmul.tt.odd": ("matmul.nt.odd",),
    "bmm.tt": ("bmm.nt",),
    **{f"lstm.{way}.odd": (f"lstm.{way}",) for way in ("forward", "backward")},
}
"""Names to look under where one was not measured."""


@dataclass(frozen=True)
class MeasuredCard(CardRoofline):
    """A card with the microbenchmarks behind it."""

    samples: Mapping[str, Samples] = field(default_factory=dict)
    """Family -> rows of numbers, the last of each the microseconds. Which numbers stand before it: ``features``."""
    host: Mapping[str, float] = field(default_factory=dict)
    """Microseconds the framework spends on the host for one op of a family, forward and (".backward") backward."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """Bytes a process needs before its first tensor, and the like."""
    processor: str = ""
    """Of the host, as ``pace.processor`` says it."""

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
        """The samples made ready for looking up."""
        return {
            name: Family.of(name, rows, self)
            for name, rows in self.samples.items()
            if not name.startswith(("workspace.", _ISSUE))
        }

    def family(self, op: Op) -> Family | None:
        """Where to look an op up: under its own name and type, else under one that is much like it."""
        return _find(self.families, op, () if op.kind in _PRODUCTS else ("pointwise",))

    @cached_property
    def _issues(self) -> dict[str, Family]:
        """Of calls of libraries, what the host spends on them by shape."""
        return {
            name.removeprefix(_ISSUE): Family.of_host(name.removeprefix(_ISSUE), rows)
            for name, rows in self.samples.items()
            if name.startswith(_ISSUE) and not name.endswith(_REFERENCE)
        }

    def issue(self, op: Op) -> float | None:
        """Microseconds the host spends on the library's call for an op of this shape, alone; None: not measured."""
        family = _find(self._issues, op)
        return None if family is None else family.ratio(op)

    def issue_reference_us(self, op: Op, forward: bool = False) -> float:
        """The same for the shape that the table of the host was measured with; ``forward``: for its forward call."""
        root, layout = (*op.name.split("."), "")[:2]
        if forward:
            layout = {"conv": "forward"}.get(root, "nt")
        rows = self.samples.get(f"{_ISSUE}{root}.{layout}{_REFERENCE}", ())
        return sum(row[-1] for row in rows) / len(rows) if rows else 0.0


@dataclass(frozen=True)
class Family:
    """Measurements of one kind of op in one type."""

    points: np.ndarray
    """A row each: what makes shapes alike, in powers of two."""
    ratios: np.ndarray
    """Logarithm of the time over what the ceilings allow."""

    @classmethod
    def of(cls, name: str, rows: Samples, card: CardRoofline) -> Family:
        """From the rows of a calibration."""
        ops = [_op(name, row) for row in rows]
        points = np.array([features(op) for op in ops])
        bases = np.array([base_us(op, card) for op in ops])
        return cls(points, np.log(np.array([row[-1] for row in rows]) / bases))

    @classmethod
    def of_host(cls, name: str, rows: Samples) -> Family:
        """The same for the host, which has no ceilings: microseconds as they are."""
        points = np.array([features(_op(name, row)) for row in rows])
        return cls(points, np.log(np.array([row[-1] for row in rows])))

    def ratio(self, op: Op) -> float:
        """Time over what the ceilings allow, from the nearest measurements: a plane through them, the nearer the more
        it heeds them, and never beyond what they span."""
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
    """Device time of one op on a measured card, all of its ``count``."""
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
    """What the ceilings alone would allow."""
    work = op.flops / card.matmul_flops.get(op.dtype, card.vector_flops) if op.kind in _PRODUCTS else 0.0
    moving = op.moved_bytes / card.bandwidth
    if op.kind == "conv":  # turned into the library's layout and back, unless it is a product of pixels
        return card.launch_us + 1e6 * (work + moving * (1 if _is_product(op) or op.shape[-1] > 1 else 3))
    if op.name.startswith("lstm"):  # for every moment a product, and what is made of it: each waits for the one before
        return 2 * op.shape[0] * card.launch_us + 1e6 * max(work, moving)
    return card.launch_us + 1e6 * max(work, moving)


def features(op: Op) -> tuple[float, ...]:
    """What makes two ops of a family take alike shares of the ceilings; a step of one is a factor of two."""
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
