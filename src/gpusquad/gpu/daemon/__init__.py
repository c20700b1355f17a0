"""The card daemon, which builds the squads of one card: ``python -m gpusquad.gpu.daemon``."""
