"""Repairs of waits for the GPU in training loops; one folder per kind of place where the values go."""
