"""Short real training programs whose end is predicted from their output. They need PyTorch and a GPU.

Run as modules, for example ``python -m bench.progress_jobs.gpt --seconds 60 --truth steps.json``.
"""
