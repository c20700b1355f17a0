"""Nodes and their devices, as the scheduler sees them."""
