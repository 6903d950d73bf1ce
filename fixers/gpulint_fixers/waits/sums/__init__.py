"""Numbers that a training loop adds up."""
