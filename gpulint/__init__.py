"""gpulint: find and repair what leaves GPUs idle, before the job is submitted."""

__version__ = "0.1.0"
