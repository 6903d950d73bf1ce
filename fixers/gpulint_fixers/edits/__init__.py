"""Edits of Python, YAML, shell and Dockerfile text, which any fixer may use."""
