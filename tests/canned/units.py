"""Units of canned answers."""

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
GIB = 2**30
