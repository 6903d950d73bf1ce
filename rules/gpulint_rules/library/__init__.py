"""Rules of the dimension Library."""
