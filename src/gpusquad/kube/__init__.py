"""Kubernetes names, quantities and annotations that the scheduler and the agent both read."""
