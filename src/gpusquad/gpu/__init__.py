"""Sharing one card: what may be held of it, and how a container is kept to its part."""
