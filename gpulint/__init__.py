"""gpulint: find and fix GPU waste before a job is submitted."""

__version__ = "0.1.0"
