"""Measures on a real card how workloads slow each other down: runs them alone and together.

``cells`` lists what to run, ``series_runner`` runs it with workers that ``launcher`` starts, and ``aggregate`` combines
the windows into one ``model.interference.MeasurementSeries``. Needs PyTorch for the workloads of the catalogue, and
NVIDIA's driver.
"""
