"""Scheduler state as a file: dump and load."""
