"""Numbers that functions read only to return them to the training loop."""
