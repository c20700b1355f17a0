"""Free capacity of the cluster, and placements that can be undone."""
