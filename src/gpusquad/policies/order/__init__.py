"""Order policies sort the pending queue: ``key(job, view)``, smallest first."""
