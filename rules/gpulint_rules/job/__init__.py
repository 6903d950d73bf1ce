"""Rules of the dimension Job."""
