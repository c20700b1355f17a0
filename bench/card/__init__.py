"""Cost and benefit of sharing one card, measured on that card: ``python -m bench.card``; see README.md in this
folder."""
