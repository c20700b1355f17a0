"""Wires the rooms together; nothing imports this but the command line."""
