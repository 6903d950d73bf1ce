"""Rules of the dimension Data."""
