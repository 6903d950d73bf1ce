"""Moving what needs no GPU out of a job into a stage before it."""
