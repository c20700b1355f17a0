"""Parses pods into gangs. Pure functions over JSON; nothing is fetched."""
