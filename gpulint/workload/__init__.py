"""Batch sizes, and the work per sample."""
