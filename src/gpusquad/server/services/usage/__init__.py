"""GPU-hours: allocated, used and idle."""
