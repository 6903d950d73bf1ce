"""Fixers of the dimension Model."""
