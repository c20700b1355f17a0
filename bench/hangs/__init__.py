"""Programs that hang or loop, and programs that only look like it."""
