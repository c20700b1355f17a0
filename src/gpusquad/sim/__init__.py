"""Virtual time over the same core: traces in, reports out."""
