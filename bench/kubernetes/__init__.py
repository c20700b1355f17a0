"""Throughput on a real control plane: what a scheduler does, and what the API server could take."""
