"""Fixers of the dimension Data."""
