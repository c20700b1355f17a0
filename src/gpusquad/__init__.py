"""gpusquad decides what runs together on GPUs: on a cluster, on a card and on its SMs."""

__version__ = "0.1.0"
