"""Where tensors live, what moves them, and what waits for the GPU."""
