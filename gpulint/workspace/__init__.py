"""The files of one tree: bytes, documents, parsed modules, and an index of their words."""
