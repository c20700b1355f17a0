"""What a cycle does with the queue: start, reserve, backfill, preempt, resize."""
