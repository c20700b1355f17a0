"""gpusquad decides what runs together on GPUs: on a cluster, on a card and on its SMs."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as typing's, which training scripts need not wait for
if TYPE_CHECKING:
    from gpusquad._estimate import estimate as estimate
    from gpusquad._progress import progress as progress
    from gpusquad._served import served as served
else:
    _LATER = {
        "progress": "gpusquad._progress",
        "estimate": "gpusquad._estimate",
        "served": "gpusquad._served",
    }

    def __getattr__(name):
        """``gpusquad.progress``, ``estimate`` and ``served`` for programs of jobs, loaded when first asked for."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = found = getattr(import_module(_LATER[name]), name)
        return found
