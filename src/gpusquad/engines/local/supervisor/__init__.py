"""The keeper: one process a gang attempt. It starts the tasks, keeps their logs, and sees how they end."""
