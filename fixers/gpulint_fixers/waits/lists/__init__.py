"""Numbers that a training loop collects in lists and tables."""
