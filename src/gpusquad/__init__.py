"""gpusquad schedules what runs together on GPUs: on a cluster, on a card and on its SMs."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing in training scripts
if TYPE_CHECKING:
    from gpusquad._estimate import estimate as estimate
    from gpusquad._progress import progress as progress
    from gpusquad._served import served as served
else:
    _LAZY = {
        "progress": "gpusquad._progress",
        "estimate": "gpusquad._estimate",
        "served": "gpusquad._served",
    }

    def __getattr__(name):
        """Load ``gpusquad.progress``, ``estimate`` and ``served`` on first use."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = found = getattr(import_module(_LAZY[name]), name)
        return found
