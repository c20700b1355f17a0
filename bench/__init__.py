"""The scoreboard: every claim about speed or quality is one command here, beside its bar and its baseline.

A module with ``NAME``, ``SUMMARY`` and ``run() -> list of claims`` joins by being in this folder. One with
``NEEDS_GPU = True`` is left out of ``--all``.
"""
