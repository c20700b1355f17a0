"""Monitoring of the card beside the workers: its activity and its free memory."""
