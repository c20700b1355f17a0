"""Step times of transformers on cards that the predictor has not seen, compared with NeuSight and a roofline.

NeuSight (Lee et al., ASPLOS '25) published measured times of forward passes and of forward and backward passes on 12
kinds of GPU, with its own predictions and those of other predictors. Here only the data sheet and seven constants of a
card are known. The constants are fitted to the rows of other kinds and tested on the one left out; "family" leaves out
all kinds with the same chip. The form of the model was chosen with knowledge of all kinds, including times of single
kernels, which no fold can undo.

The measurements include neither the forward pass of the loss nor an optimiser; gradients are added to those of the
previous step; attention is eager; fp32 without TF32. The allocator's cache was emptied before each step. For some
forward passes this costs more than the kernels, mostly where a step nearly fills the card. That is not modelled.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from rich.console import Console
from rich.table import Table

from bench.analytical_models.transformer_ops import MODELS, RunConfig, transformer_ops
from bench.claims import claim
from bench.data import data_path
from gpusquad.predict.analytical.cards import REACH, PeakFractions, Sheet, find_sheet
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.timing import CONSTANTS, Constants, step_us

NAME = "neusight"
SUMMARY = "step times of transformers on 12 kinds of GPU, each left out of the fit"

FAMILIES = {
    "NVIDIA_A100-PCIE-40GB": "A100",
    "NVIDIA_A100-SXM4-40GB": "A100",
    "NVIDIA_A100_80GB_PCIe": "A100",
    "AMD_Instinct_MI210": "MI200",
    "AMD_Instinct_MI250": "MI200",
}
"""Kinds with the same chip."""
LEARNED = frozenset({"NVIDIA_A100-PCIE-40GB", "Tesla_P100-PCIE-16GB", "Tesla_P4", "Tesla_T4", "Tesla_V100-PCIE-32GB",
                     "AMD_Instinct_MI100", "AMD_Instinct_MI210"})  # fmt: skip
"""Kinds that NeuSight's networks were trained on (scripts/asplos/data/dataset*/train/device_configs)."""
GRID: dict[str, tuple[float, ...]] = {
    "narrow_ratio": (0.8, 0.84, 0.87, 0.9, 0.92, 0.94, 0.96, 0.98),
    "wide_ratio": (0.65, 0.68, 0.71, 0.74, 0.77, 0.8, 0.83, 0.86),
    "matrix_ratio": (0.55, 0.58, 0.61, 0.64, 0.67, 0.7, 0.73, 0.76, 0.8),
    "flops_per_watt_nm": tuple(giga * 1e9 for giga in (450, 500, 550, 600, 650, 700, 750, 800, 850, 900, 1000)),
    "memory_ratio": (0.65, 0.7, 0.73, 0.76, 0.79, 0.82, 0.85, 0.88),
    "ramp_k": (0, 8, 16, 24, 32, 48, 64),
    "wait_us": (0, 30, 60, 90, 120),
}
"""Candidate values of the fit, which starts in the middle."""
_OF_CARDS = frozenset(asdict(REACH))
ROOFLINE: dict[str, tuple[float, ...]] = {
    "compute": tuple(percent / 100 for percent in range(30, 101, 5)),
    "matrix": tuple(percent / 100 for percent in range(30, 101, 5)),
    "memory": tuple(percent / 100 for percent in range(30, 101, 5)),
}
"""Baseline with the same op lists: the same fractions of the peaks on all cards."""
Point = tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """One measurement with the inputs of its prediction."""

    gpu: str
    model: str
    mode: str
    variant: str
    measured_ms: float
    neusight_ms: float | None
    roofline_ms: float | None
    sheet: Sheet
    ops: tuple[Op, ...]
    gpus: int

    def predicted_ms(self, point: Point) -> float:
        """By the predictor with these constants, in the order of ``GRID``."""
        reach, constants = _parts(point)
        return step_us(self.ops, self.sheet.card(reach), self.gpus, constants=constants) / 1e3

    def bounded_ms(self, point: Point) -> float:
        """By a roofline with these parts of the peaks, in the order of ``ROOFLINE``."""
        compute, matrix, memory = point
        flops = 1e9 * (matrix * self.sheet.matrix["fp32"] if self.sheet.lanes == 0 else compute * self.sheet.fp32)
        bandwidth = 1e6 * memory * self.sheet.bandwidth_gb
        bounds = ((op.count, op.flops / flops, op.moved_bytes / bandwidth) for op in self.ops if op.kind != "allreduce")
        return sum(count * max(compute_ms, memory_ms) for count, compute_ms, memory_ms in bounds)


def run() -> list[dict]:
    """Mean absolute percentage errors: held out, and as shipped."""
    rows = read_rows()
    fit, roofline = Fit(rows, GRID, Row.predicted_ms), Fit(rows, ROOFLINE, Row.bounded_ms)
    by_gpu, by_family = fit.held_out(lambda row: row.gpu), fit.held_out(lambda row: FAMILIES.get(row.gpu, row.gpu))
    shipped = fit.errors(_shipped())
    _show(rows, by_gpu, by_family, shipped)
    both = [index for index, row in enumerate(rows) if row.roofline_ms]
    known = [index for index, row in enumerate(rows) if row.neusight_ms]
    return [
        _error("each kind left out", both, rows, by_gpu),
        _error("each kind left out; against its roofline", both, rows, by_gpu, "roofline_ms"),
        _fitted_roofline(both, by_gpu, roofline.held_out(lambda row: row.gpu)),
        _error("each chip's family left out", both, rows, by_family),
        _error("shipped constants", both, rows, shipped),
        _error("each kind left out", known, rows, by_gpu),
        claim(f"{len(rows)} rows, each kind left out: mean error", _percent(by_gpu), "%", "lower"),
        _error("kinds NeuSight did not learn from, fitted to those it did", *_unlearned(rows, fit)),
        claim("constants that a fit to all rows would change", _changed(fit), "constants", "lower", bar=0),
        claim(
            "gpt2_large training, each kernel an op: time to predict 1,000 of them", _speed_ms(), "ms", "lower", bar=5
        ),
    ]


def read_rows() -> list[Row]:
    """Rows whose model configuration is known: all but one."""
    path = data_path("neusight-latency/measured_vs_predicted_e2e.csv")
    with path.open(encoding="utf-8") as file:
        return [_row(plain) for plain in csv.DictReader(file) if plain["model"] in MODELS]


def _row(plain: dict[str, str]) -> Row:
    sheet = find_sheet(plain["gpu"])
    if sheet is None:
        raise LookupError(plain["gpu"])
    variant, batch = plain["variant"], int(plain["batch"])
    way, degree = (variant[:2], int(variant[2])) if variant[:2] in ("dp", "tp", "pp") else ("", 1)
    asked = RunConfig(
        seq_len=int(plain["seq_len"]),
        batch=batch // degree if way == "dp" else batch,
        training=plain["mode"] == "train",
        fused=variant == "fusion",
        tensor_parallel=degree if way == "tp" else 1,
        accumulates=True,
    )
    ops = transformer_ops(MODELS[plain["model"]], asked)
    timed = tuple(op for op in ops if not (op.name == "loss" and op.phase == "forward"))
    # A pipeline with one micro-batch runs its stages sequentially, so it takes as long as one card.
    return Row(plain["gpu"], plain["model"], plain["mode"], variant, float(plain["measured_e2e_ms"]),
               _maybe(plain["pred_neusight_ms"]), _maybe(plain["pred_roofline_ms"]), sheet, timed,
               degree if way in ("dp", "tp") else 1)  # fmt: skip


def _maybe(text: str) -> float | None:
    return float(text) if text else None


class Fit:
    """Optimise one constant after another until none improves. All folds share the evaluated values."""

    def __init__(self, rows: Sequence[Row], grid: dict[str, tuple[float, ...]],
                 predict: Callable[[Row, Point], float]) -> None:  # fmt: skip
        self.rows = rows
        self._grid, self._predict = grid, predict
        self._tried: dict[Point, list[float]] = {}

    def errors(self, point: Point) -> list[float]:
        """Of all rows, relative and without sign."""
        if point not in self._tried:
            self._tried[point] = [abs(self._predict(row, point) / row.measured_ms - 1) for row in self.rows]
        return self._tried[point]

    def to(self, indices: Sequence[int]) -> Point:
        """The constants with the least mean error over these rows."""
        point = tuple(values[len(values) // 2] for values in self._grid.values())
        least, before = self._mean(point, indices), float("inf")
        while least < before - 1e-9:
            before = least
            for place, values in enumerate(self._grid.values()):
                tries = [(*point[:place], value, *point[place + 1 :]) for value in values]
                point = min([point, *tries], key=lambda tried: self._mean(tried, indices))
            least = self._mean(point, indices)
        return point

    def held_out(self, group: Callable[[Row], str]) -> list[float]:
        """Each row's error by constants that were fitted without its group."""
        errors = [0.0] * len(self.rows)
        for name in sorted({group(row) for row in self.rows}):
            out = [index for index, row in enumerate(self.rows) if group(row) == name]
            found = self.errors(self.to([index for index, row in enumerate(self.rows) if group(row) != name]))
            for index in out:
                errors[index] = found[index]
        return errors

    def _mean(self, point: Point, indices: Sequence[int]) -> float:
        errors = self.errors(point)
        return fmean(errors[index] for index in indices)


def _fitted_roofline(indices: list[int], errors: Sequence[float], simple: Sequence[float]) -> dict:
    theirs = _percent(simple[index] for index in indices)
    name = f"{len(indices)} rows, each kind left out; against a roofline of our ops, fitted too: mean error"
    return claim(name, _percent(errors[index] for index in indices), "%", "lower", bar=theirs, baseline=theirs)


def _parts(point: Point) -> tuple[PeakFractions, Constants]:
    named = dict(zip(GRID, point, strict=True))
    of_cards = {name: value for name, value in named.items() if name in _OF_CARDS}
    others = {name: value for name, value in named.items() if name not in _OF_CARDS}
    return replace(REACH, **of_cards), replace(CONSTANTS, **others)


def _shipped() -> Point:
    named = asdict(REACH) | asdict(CONSTANTS)
    return tuple(named[name] for name in GRID)


def _changed(fit: Fit) -> int:
    found = fit.to(range(len(fit.rows)))
    if found != _shipped():
        print("a fit to all rows finds", dict(zip(GRID, found, strict=True)), file=sys.stderr)
    return sum(ours != theirs for ours, theirs in zip(_shipped(), found, strict=True))


def _unlearned(rows: Sequence[Row], fit: Fit) -> tuple[list[int], Sequence[Row], list[float]]:
    point = fit.to([index for index, row in enumerate(rows) if row.gpu in LEARNED])
    out = [index for index, row in enumerate(rows) if row.gpu not in LEARNED and row.neusight_ms]
    return out, rows, fit.errors(point)


def _error(how: str, indices: list[int], rows: Sequence[Row], errors: Sequence[float],
           rival: str = "neusight_ms") -> dict:  # fmt: skip
    """Ours must be less than the rival's on the same rows."""
    theirs = _rival_percent([rows[index] for index in indices], rival)
    ours = _percent(errors[index] for index in indices)
    return claim(f"{len(indices)} rows, {how}: mean error", ours, "%", "lower", bar=theirs, baseline=theirs)


def _rival_percent(rows: Iterable[Row], column: str) -> float:
    return _percent(abs(getattr(row, column) / row.measured_ms - 1) for row in rows if getattr(row, column))


def _percent(errors: Iterable[float]) -> float:
    return round(100 * fmean(errors), 2)


def _speed_ms() -> float:
    """Of a thousand ops, the best of five, with nothing remembered from before."""
    from gpusquad.predict.analytical import timing

    asked = RunConfig(1024, 4, training=True)
    ops = [replace(op, count=1) for op in transformer_ops(MODELS["gpt2_large"], asked) for _ in range(op.count)]
    sheet = find_sheet("NVIDIA H100 80GB HBM3")
    assert sheet is not None
    card, took_s = sheet.card(), []
    for _ in range(5):
        timing._best_tiling.cache_clear()
        began = time.perf_counter()
        step_us(ops, card)
        took_s.append(time.perf_counter() - began)
    return round(1e6 * min(took_s) / len(ops), 2)


def _show(rows: Sequence[Row], by_gpu: list[float], by_family: list[float], shipped: list[float]) -> None:
    """Where the errors are, on standard error: the scoreboard has only the means."""
    table = Table("rows of", box=None, pad_edge=False)
    for heading in ("rows", "kind out", "family out", "shipped", "NeuSight", "roofline"):
        table.add_column(heading, justify="right")
    groups: tuple[Callable[[Row], str], ...] = (
        lambda row: row.gpu,
        lambda row: row.model,
        lambda row: f"{row.mode} {row.variant[:2] or 'alone'}",
    )
    for group in groups:
        for name in sorted({group(row) for row in rows}):
            chosen = [index for index, row in enumerate(rows) if group(row) == name]
            table.add_row(name, str(len(chosen)), *_cells(chosen, rows, by_gpu, by_family, shipped))
        table.add_section()
    Console(stderr=True, width=110).print(table)


def _cells(chosen: list[int], rows: Sequence[Row], *errors: list[float]) -> list[str]:
    ours = [f"{_percent(each[index] for index in chosen):.1f}" for each in errors]
    theirs = []
    for column in ("neusight_ms", "roofline_ms"):
        with_it = [rows[index] for index in chosen if getattr(rows[index], column)]
        few = f" ({len(with_it)})" if len(with_it) < len(chosen) else ""
        theirs.append(f"{_rival_percent(with_it, column):.1f}{few}" if with_it else "")
    return ours + theirs
