"""Runs gangs as pods of a Kubernetes cluster, and tells the scheduler what that cluster has and holds."""
