"""How long, how much: predictors with one interface, ``fit(history)`` and ``predict(job)``."""
