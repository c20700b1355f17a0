"""Estimates run time and memory of a model's job before it runs, from its ops and the card."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, TypeGuard

from gpusquad.model.errors import Invalid
from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.predict.analytical import host, onnx_file, pace, timing
from gpusquad.predict.analytical.card import CardRoofline, known
from gpusquad.predict.analytical.graph import Graph
from gpusquad.predict.analytical.measured import MeasuredCard
from gpusquad.predict.analytical.memory import MIB, Memory, peak
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.training import gradient_exchange, step_count, with_optimiser

Precision = Literal["fp32", "tf32", "amp-bf16", "amp-fp16", "bf16", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "amp-bf16", "amp-fp16", "bf16", "fp16")
_SHIPPED = {"NVIDIA H200": "h200.json"}
"""Calibrated cards. All others are known by their data sheets."""
_CONTEXT_BYTES = 700 * MIB
"""Driver and libraries, if the card was not measured (seen with CUDA 13 and PyTorch 2.11 on an H200)."""
_WORKSPACE_BYTES = 33 * MIB
"""Memory that the matrix library keeps for each thread that calls it. Backward has its own thread."""
_SPREADS = {"card": 0.12, "host": 0.2, "sheet": 0.35}
"""Standard deviation of the logarithm of the error: limited by a measured card, by a measured host, and by what was not
measured. The first two are rounded up from ``bench run analytical`` on H200s.
"""
_TYPICAL = {
    "matmul": (1.0, 1.65), "conv": (2.35, 2.7), "attention": (1.2, 2.2), "vector": (1.15, 1.65), "copy": (1.05, 1.55),
    "reduce": (2.1, 5.6), "gather": (3.5, 3.5),
}  # fmt: skip
"""Ratio of PyTorch's kernel times to the ceilings of a data sheet, for long and for short number types: the calibrated
H200 over its data sheet, over all ops of the networks in ``bench.analytical_models``.
"""
_CONFIDENCES = {"card": 0.8, "host": 0.6, "sheet": 0.4}


@dataclass(frozen=True)
class RunEstimate:
    """Estimates of a step and of the whole run. Times are those of one card; all cards of the gang work alike."""

    card: str
    step_us: float
    run_us: Quantiles
    memory: Memory
    phases_us: Mapping[str, float]
    """Device time of a step: forward, backward, optimiser, and communication that is not hidden."""
    host_us: float
    """Host time to issue a step. If it exceeds the card's time, the host limits the step."""
    steps: int
    flops: float
    """Of one step on one card."""
    parameters: int
    unknown: Mapping[str, int]
    """Ops without a rule and their number. They are counted by their bytes alone."""

    @property
    def peak_memory_bytes(self) -> int:
        """As the driver reports it for the card, including context and libraries."""
        return self.memory.card_bytes

    def expect(self) -> dict[str, Any]:
        """As written in a job file under ``expect``."""
        run_s = {name: f"{self.run_us.at(level) / 1e6:.3f}s" for name, level in (("run", 0.5), ("run_high", 0.9))}
        return run_s | {"memory": self.peak_memory_bytes}

    def json(self) -> str:
        """One line, as an estimator prints it (``expect.by`` in a job file)."""
        return json.dumps(self.expect())

    def save(self, path: str | Path) -> None:
        """Write a file for ``gpusquad submit --expect FILE``."""
        Path(path).write_text(json.dumps({"expect": self.expect()}), encoding="utf-8")

    @property
    def bound_by(self) -> Literal["card", "host"]:
        return "host" if self.host_us > sum(self.phases_us.values()) else "card"


def estimate(
    model: Any,
    sample: Any,
    steps: int | None = None,
    *,
    optimizer: str | None = "adamw",
    precision: Precision = "fp32",
    training: bool = True,
    gpus: int = 1,
    card: str | Path | CardRoofline = "NVIDIA H200",
    epochs: float | None = None,
    data_size: int | None = None,
    compiled: bool = False,
    loss: Callable[..., Any] | None = None,
    pace_us: float | None = None,
) -> RunEstimate:
    """Estimate step time, run time and memory.

    ``model``: a torch.nn.Module (traced without the values of its weights; no GPU is needed), a path or the bytes of an
    ONNX file, or a Graph. ``sample``: the arguments of the module, a tensor or a tuple, on any device. With ``loss``,
    its last item is the target and the step trains ``loss(model(*sample[:-1]), sample[-1])``. For ONNX, ``sample`` is
    the batch size.

    ``card``: the name of a shipped card, a file written by calibration, or a Card. ``compiled``: the step is replayed
    from a captured graph, so that the host does not matter. ``pace_us``: the pace of the host when the job runs (see
    ``pace``). By default it is measured now, if the card was calibrated in a machine like this one.
    """
    if precision not in PRECISIONS:
        raise Invalid("precision", f"is not known: {precision!r}; one of {', '.join(PRECISIONS)}")
    if gpus < 1:
        raise Invalid("gpus", "must be at least 1")
    card = find_card(card)
    graph = _graph(model, sample, precision, training, loss)
    return of_graph(
        graph,
        steps,
        optimizer=optimizer if training else None,
        training=training,
        gpus=gpus,
        card=card,
        epochs=epochs,
        data_size=data_size,
        compiled=compiled,
        pace_us=_pace_now(card) if pace_us is None and not compiled else pace_us,
    )


def of_graph(
    graph: Graph,
    steps: int | None = None,
    *,
    optimizer: str | None,
    training: bool,
    gpus: int,
    card: CardRoofline,
    epochs: float | None = None,
    data_size: int | None = None,
    compiled: bool = False,
    pace_us: float | None = None,
) -> RunEstimate:
    """Estimate a step that is given op by op."""
    if training and optimizer is not None:
        graph = with_optimiser(graph, optimizer)
    phases: dict[str, float] = {}
    for op in graph.ops:
        phases[op.phase] = phases.get(op.phase, 0.0) + _op_us(op, card)
    if training and gpus > 1:
        ops = (*graph.ops, gradient_exchange(graph))
        alone_us, together_us = (timing.step_us(each, card, gpus, graph=True) for each in (graph.ops, ops))
        phases["communication"] = together_us - alone_us
    device_us = sum(phases.values())
    host_us = 0.0 if compiled else _host_us(graph, card, training, pace_us)
    step_us = max(device_us, host_us)
    count = step_count(steps, epochs, data_size, graph.batch, gpus)
    is_measured = _has_host(card) if host_us > device_us else card.measured
    bound = "sheet" if not is_measured else "host" if host_us > device_us else "card"
    return RunEstimate(
        card.name,
        step_us,
        run_quantiles(count * step_us, bound, _known_ratio(graph)),
        _memory(graph, card, training),
        phases,
        host_us,
        count,
        graph.flops,
        graph.parameters,
        graph.unknown,
    )


def run_quantiles(run_us: float, bound: str, known_ratio: float = 1.0) -> Quantiles:
    """The run time as a distribution, as wide as the known error of such estimates."""
    spread = _SPREADS[bound] + 0.5 * (1 - known_ratio)
    normal = NormalDist()
    values = tuple(round(run_us * exp(spread * normal.inv_cdf(level))) for level in LEVELS)
    return Quantiles(LEVELS, values, "analytical", round(_CONFIDENCES[bound] * known_ratio, 3))


def find_card(card: str | Path | CardRoofline) -> CardRoofline:
    """Find a card by name, or load it from a calibration file."""
    if isinstance(card, CardRoofline):
        return card
    if str(card).endswith(".json"):
        return load_card(card)
    found = known(str(card))
    if found is None:
        raise Invalid("card", f"{card!r} is not known; name another card, or calibrate it and give the file")
    shipped = _SHIPPED.get(found.name)
    if shipped is None:
        return found
    # Ops as measured. The host is any host, not the one in which the card was measured.
    return replace(load_card(Path(__file__).with_name(shipped)), host_op_us=found.host_op_us)


@lru_cache(maxsize=8)
def load_card(path: str | Path) -> CardRoofline:
    """Load a calibration file, or one written from ``Card.to_dict``."""
    plain = json.loads(Path(path).read_text(encoding="utf-8"))
    return MeasuredCard.from_dict(plain) if plain.get("samples") else CardRoofline.from_dict(plain)


def _graph(model: Any, sample: Any, precision: Precision, trains: bool, loss: Callable[..., Any] | None) -> Graph:
    if isinstance(model, Graph):
        return model
    if isinstance(model, (str, Path, bytes)) or hasattr(model, "SerializeToString"):
        return onnx_file.from_onnx(model, sample if isinstance(sample, int) else None, precision, trains)
    try:
        from gpusquad.predict.analytical.torch_module import trace
    except ImportError as error:
        raise ImportError("estimating a PyTorch model needs PyTorch: pip install torch") from error
    return trace(model, sample, precision, trains, loss)


def _op_us(op: Op, card: CardRoofline) -> float:
    if card.measured or op.kind not in _TYPICAL:
        return timing.op_us(op, card)
    return timing.op_us(op, card) * _TYPICAL[op.kind][op.dtype in ("fp16", "bf16", "fp8", "int8")]


def _has_host(card: CardRoofline) -> TypeGuard[MeasuredCard]:
    """Whether the host was measured too."""
    return isinstance(card, MeasuredCard) and bool(card.host)


def _pace_now(card: CardRoofline) -> float | None:
    """The pace of this host, if it is like the one in which the card was calibrated. None: they are not comparable."""
    if not _has_host(card) or "pace" not in card.host or card.processor != pace.processor():
        return None
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return pace.measure(torch)


def _host_us(graph: Graph, card: CardRoofline, trains: bool, pace_us: float | None) -> float:
    if _has_host(card):
        return host.host_us(graph.ops, card, trains, graph.parameter_tensors, graph.modules, pace_us)
    return sum(op.count * op.kernels for op in graph.ops) * card.host_op_us


def _memory(graph: Graph, card: CardRoofline, trains: bool) -> Memory:
    constants = card.constants if isinstance(card, MeasuredCard) else {}
    context = int(constants.get("context_bytes", _CONTEXT_BYTES))
    workspace = int(constants.get("product_workspace_bytes", _WORKSPACE_BYTES))
    threads = 2 if trains else 1
    return peak(graph.events, (*graph.held, *[workspace] * threads), context)


def _known_ratio(graph: Graph) -> float:
    """The fraction of the calls for which there is a rule."""
    calls = len(graph.ops)
    return 1.0 - min(1.0, sum(graph.unknown.values()) / calls) if calls else 1.0
