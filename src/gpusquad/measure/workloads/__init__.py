"""The catalogue: programs with a known profile, one small file each. A step is an iteration or some requests."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from gpusquad.measure.workloads import alexnet, cnn, googlenet, matmul, stream, transformer, vgg
from gpusquad.measure.workloads.workload import Step, Workload
from gpusquad.model.errors import Invalid

__all__ = ["CATALOGUE", "MODELS_OF_2020", "Step", "Workload", "find"]

CATALOGUE: dict[str, Workload] = {
    workload.name: workload
    for module in (cnn, vgg, alexnet, googlenet, transformer, stream, matmul)
    for workload in module.WORKLOADS
}
MODELS_OF_2020 = ("cnn", "vgg16", "vgg11", "alexnet", "googlenet")
"""The five training jobs that the paper of 2020 ran in pairs on a card of 12 GB."""


def find(name: str) -> Workload:
    """A workload of the catalogue, or a user's own: ``package.module:workload``."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise Invalid("workload", f"{name!r} is not known", f"one of {', '.join(CATALOGUE)}, or module:attribute")
    try:
        found: Workload | Callable[[], Workload] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Invalid("workload", f"{name!r} cannot be loaded: {error}") from None
    return found if isinstance(found, Workload) else found()
