"""Jobs from submission to end."""
