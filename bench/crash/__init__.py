"""Kills the service, and what belongs to it, and checks that nothing is lost and nothing runs twice."""
