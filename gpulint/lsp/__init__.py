"""The language server. It needs the extra ``lsp``; nothing else in gpulint imports pygls or this package.

Two threads share the work. The event loop (``server``) keeps the texts of open documents and talks to the editor. One
worker thread (``workspace``) owns settings, documents and facts, and turns texts into findings.
"""
