"""Measures on a real card how workloads slow each other: runs them alone and together, and says what was seen.

``cells`` says what to run, ``conductor`` runs it with workers that ``launching`` starts, ``gather`` makes one
``model.interference.Measured`` of the windows. Needs PyTorch for the workloads of the catalogue, and NVIDIA's driver.
"""
