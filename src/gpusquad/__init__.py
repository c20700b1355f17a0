"""gpusquad decides what runs together on GPUs: on a cluster, on a card and on its SMs."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as typing's, which training scripts need not wait for
if TYPE_CHECKING:
    from gpusquad._progress import progress as progress
else:

    def __getattr__(name):
        """``gpusquad.progress`` for training scripts, loaded when first asked for."""
        if name != "progress":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from gpusquad._progress import progress

        globals()["progress"] = progress
        return progress
