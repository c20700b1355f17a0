"""Plan policies: which pending gangs get a reservation, and which jobs may be backfilled before them."""
