"""What sharing one card costs and gives, measured on that card: ``python -m bench.card``; see README.md beside this."""
