"""Rules of the dimension Model."""
