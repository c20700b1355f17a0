"""The scheduler thread: its loop, its unit of work and the rows it writes."""
