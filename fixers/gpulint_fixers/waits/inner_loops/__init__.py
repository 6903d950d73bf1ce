"""Numbers that an inner loop of a training step reads one by one."""
