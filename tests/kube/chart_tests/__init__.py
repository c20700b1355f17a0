"""Tests of the Helm chart. A package, so that pytest ends the shared control plane after its last test."""
