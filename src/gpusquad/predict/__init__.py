"""Predictors of run time and memory, with one interface: ``predict(job)`` returns a prediction, ``learn(job, run_us)``
reports a finished job.
"""
