"""Who is next. An order is ``key(job, view)``, smallest first, or ``next(view)`` where each start changes the order."""
