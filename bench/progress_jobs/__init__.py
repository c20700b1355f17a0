"""Real training programs, short ones, whose end is to be foretold from their own reports. They need PyTorch and a GPU.

Run as modules, for example ``python -m bench.progress_jobs.gpt --seconds 60 --truth steps.json``.
"""
