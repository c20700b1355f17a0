"""Engines carry decisions out and report what happened."""
