"""Kills the service and its processes, and checks that no job is lost or runs twice."""
