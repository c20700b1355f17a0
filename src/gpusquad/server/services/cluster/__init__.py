"""Nodes, agents and what they report."""
