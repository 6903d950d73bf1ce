"""The language server. Only ``gpulint lsp`` imports this package, and with it pygls: that would slow every start.

Two threads share the work. The event loop (``server``) keeps the texts of open documents and talks to the editor. One
worker thread (``workspace``) owns settings, documents and facts, and turns texts into findings.
"""
