"""What the scheduler knows: queue, runs, accounts, reservations."""
