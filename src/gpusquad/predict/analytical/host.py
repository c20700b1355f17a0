"""Host time to issue a step op by op, on a machine whose calibration measured single ops.

An op costs what it did in a row of equal ops, times a factor for being among other ops. Module calls are added.
Convolutions and products call libraries, which do more for some shapes than for others. Their time in a row is
corrected by the ratio of the shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from gpusquad.predict.analytical.graph import names
from gpusquad.predict.analytical.measured import MeasuredCard
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.training import OPTIMISERS, TENSORS_A_LAUNCH

_LIKE = {
    **{
        name: name
        for name in names(
            """view inplace gelu dropout batch_norm layer_norm group_norm max_pool avg_pool softmax cat cast copy
            attention"""
        )
    },
    "log_softmax": "softmax",
    "sum_inner": "sum",
    "sum_all": "sum",
    "sum_rows": "sum",
    "permute": "copy",
    "transpose": "copy",
    "upsample": "avg_pool",
}
"""Families whose host cost was measured under their own name. All others cost as much as a pointwise op."""
_OF_IMAGES = ("batch_norm", "max_pool", "avg_pool", "bias", "sum_channels", "upsample", "inplace")
ELASTICITY = "pace.elasticity"
"""Key in the host table: the power of the pace that the time to issue ops follows."""
_OPTIMISERS_LIKE = {"adam": "adamw"}
_PRODUCTS = {"matmul": ("mm", 1), "bmm": ("bmm", 2), "conv": ("conv", 1)}
"""The name it was measured under, and the number of ops in one layer of that row. Backward has twice that number."""


def host_us(
    ops: Iterable[Op],
    card: MeasuredCard,
    training: bool,
    tensors: int = 0,
    modules: int = 0,
    pace_us: float | None = None,
) -> float:
    """Host time of a step.

    ``tensors``: parameters that the optimiser updates. ``modules``: module calls in the forward pass. ``pace_us``: time
    of the work in ``pace`` on the host when the step runs, if it differs from the calibration.
    """
    return _pace(card, pace_us) * _calibrated_us(ops, card, training, tensors, modules)


def _pace(card: MeasuredCard, pace_us: float | None) -> float:
    """Ratio of the time to issue ops to that at calibration."""
    before_us = card.host.get("pace", 0.0)
    if not before_us or not pace_us:
        return 1.0
    return (pace_us / before_us) ** card.host.get(ELASTICITY, 1.0)


def _calibrated_us(ops: Iterable[Op], card: MeasuredCard, training: bool, tensors: int, modules: int) -> float:
    host = card.host
    spent = modules * host.get("module" if training else "module.inference", 0.0)
    if training:
        spent += host.get("backward", 0.0)
    for op in ops:
        if op.phase == "optimiser":
            spent += _optimiser_us(op, card, tensors)
        elif op.kind != "allreduce":
            spent += op.count * issue_us(op, card, training)
    return spent


def _optimiser_us(op: Op, card: MeasuredCard, tensors: int) -> float:
    """The cost of its start with cold caches, of each tensor, and of the launches beyond the minimum that large tensors
    need.
    """
    host, rule, name = card.host, OPTIMISERS.get(op.name), _OPTIMISERS_LIKE.get(op.name, op.name)
    start_us = _mix(op, card, True) * host.get(f"{name}.step", 0.0)
    fewest = rule.passes * ceil(tensors / TENSORS_A_LAUNCH) if rule else op.kernels
    launches_us = max(0, op.kernels - fewest) * host.get("launch", 0.0)
    return start_us + tensors * host.get(f"{name}.tensor", 0.0) + launches_us


def issue_us(op: Op, card: MeasuredCard, training: bool) -> float:
    """Host time of one op among others."""
    return _mix(op, card, training) * _IssueCost(card, op, training).us()


class _IssueCost:
    """One op in a row of equal ops."""

    def __init__(self, card: MeasuredCard, op: Op, training: bool) -> None:
        self._card, self._op, self._back = card, op, op.phase == "backward"
        self._way = _way(op, training)

    def us(self) -> float:
        op, root = self._op, self._op.name.split(".")[0]
        if op.name in ("bias", "sum_channels"):
            return self._more("conv_bias", "conv")
        if op.name == "sum_rows" and self._back:
            return self._more("matmul", "mm")
        if root == "cast" and self._back:
            return self._more("autocast_matmul", "matmul") / 2
        if root == "lstm":
            return self._card.issue(op) or op.kernels * self._card.host.get("launch", 0.0)
        if root in _PRODUCTS:
            return self._product_us(root)
        if root == "attention" and op.dtype in ("fp32", "tf32"):
            return self._cost("attention_fp32")
        return self._cost(_LIKE.get(root.removesuffix("_backward").removesuffix("_eval"), "pointwise"))

    def _cost(self, name: str) -> float:
        """The measured cost without the module call in which the op was measured."""
        host = self._card.host
        measured_us = host.get(name + self._way, host.get(name, 0.0))
        return max(0.0, measured_us - host.get(f"module{self._way}", 0.0))

    def _more(self, name: str, than: str) -> float:
        return max(0.0, self._cost(name) - self._cost(than))

    def _product_us(self, root: str) -> float:
        name, count = _PRODUCTS[root]
        if root == "conv" and self._op.shape[-1] > 1 and self._card.issue(self._op) is None:
            name = "depthwise"
        layer_us = self._cost(name) - (self._cost("transpose") if root == "bmm" else 0.0)
        return max(0.0, layer_us / (count * (2 if self._back else 1)) + self._shape_us(name, count))

    def _shape_us(self, name: str, count: int) -> float:
        """Additional library time on the host for this shape, compared with the shape measured in a row."""
        shape_us, reference_us = self._card.issue(self._op), self._card.issue_reference_us(self._op)
        if shape_us is None or not reference_us:
            return 0.0
        host = self._card.host
        inference_us = (host[f"{name}.inference"] - host.get("module.inference", 0.0)) / count
        pace = inference_us / self._card.issue_reference_us(self._op, forward=True)
        return pace * (shape_us - reference_us)


def _way(op: Op, training: bool) -> str:
    return ".backward" if op.phase == "backward" else "" if training else ".inference"


def _mix(op: Op, card: MeasuredCard, training: bool) -> float:
    """Ratio of the cost of an op among others to its cost among equal ops."""
    if op.name.startswith("lstm"):
        return 1.0  # its ops follow equal ops
    kind = "images" if op.kind == "conv" or op.name.startswith(_OF_IMAGES) else "rows"
    return max(1.0, card.host.get(f"mix.{kind}{_way(op, training)}", 1.0))
