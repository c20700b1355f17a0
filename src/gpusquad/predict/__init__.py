"""How long, how much: predictors with one interface. ``predict(job)`` gives a forecast, ``learn(job, run_us)`` tells
of a job that has ended."""
