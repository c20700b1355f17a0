"""The card itself, seen from beside the workers: what it does, and how much of its memory is left to them."""
