"""Readers of job specs, one module per system: ``read(root) -> list[Task]``, empty when the document is another's."""
