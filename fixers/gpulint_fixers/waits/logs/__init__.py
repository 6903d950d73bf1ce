"""Numbers that a training loop only logs."""
