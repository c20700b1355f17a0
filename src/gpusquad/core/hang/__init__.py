"""Detection of runs without progress."""
