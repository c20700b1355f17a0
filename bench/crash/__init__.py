"""Kills the service, and what belongs to it, at chosen points, and checks that nothing is lost and nothing runs twice."""
