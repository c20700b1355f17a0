"""The scoreboard: every claim about speed or quality is one command, with its bar and its baseline.

A module of this folder with ``NAME``, ``SUMMARY`` and ``run() -> list of claims`` is a bench. ``NEEDS_GPU = True``
excludes it from ``--all``.
"""
