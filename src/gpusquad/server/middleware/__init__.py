"""Middleware of every request, outermost first: headers, failures, host, authentication, body."""
