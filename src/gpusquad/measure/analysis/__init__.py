"""What a series of measurements says, and what of it is more than chance."""
