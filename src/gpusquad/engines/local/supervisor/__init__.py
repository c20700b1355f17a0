"""The supervisor: one process per gang attempt. It starts the tasks, writes their logs and records how they end."""
