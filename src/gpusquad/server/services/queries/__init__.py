"""Read-only answers: queue, forecasts, timeline."""
