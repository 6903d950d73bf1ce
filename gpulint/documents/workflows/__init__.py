"""Small readers of other tools' files: ``read(source, models) -> list[Task]``; what they do not know, they skip."""

MAX_TASKS = 500
"""Tasks of one file, at most."""
