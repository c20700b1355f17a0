"""Why a job is pending, when it is expected to start, and what would change that."""
