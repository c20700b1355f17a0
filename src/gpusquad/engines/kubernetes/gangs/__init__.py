"""Gangs made of pods, from the first pod seen to the last pod gone."""
