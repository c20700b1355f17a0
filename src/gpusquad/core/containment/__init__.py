"""Bounds on the harm of jobs and cards that fail again and again."""
