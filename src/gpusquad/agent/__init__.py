"""What runs beside the GPUs: which cards there are, how they and the runs on them are doing, and when one fails."""
