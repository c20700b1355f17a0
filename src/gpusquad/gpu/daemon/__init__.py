"""The daemon of a card: who runs together next, on how many SMs, for how long. ``python -m gpusquad.gpu.daemon``."""
