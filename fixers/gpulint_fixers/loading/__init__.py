"""Repairs of data loaders and of the copies of their batches to the GPU."""
