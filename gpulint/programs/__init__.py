"""Which programs and jobs use GPUs, and how many."""
