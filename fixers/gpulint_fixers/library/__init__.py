"""Fixers of the dimension Library."""
