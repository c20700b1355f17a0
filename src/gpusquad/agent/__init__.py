"""The process beside the GPUs: inventory, samples of cards and runs, and faults."""
