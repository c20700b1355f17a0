"""Throughput on a real control plane: schedulers, and the limit of the API server."""
