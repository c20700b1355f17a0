"""A series of measurements to look at: a page and a picture."""
