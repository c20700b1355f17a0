"""What outlives the server: jobs, their stories, accounts. SQLite by default, PostgreSQL by URL, one code path."""
