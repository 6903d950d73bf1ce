"""Fixers of the dimension Job."""
