"""Modules that fixes bring along, kept as the code that users get."""
