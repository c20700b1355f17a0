"""Durable state of the service: jobs, events, accounts. SQLite by default, PostgreSQL by URL, one code path."""
