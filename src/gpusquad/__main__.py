"""``python -m gpusquad``."""

from gpusquad.cli import main

main()
