"""Documents: files turned into syntax trees with exact spans, one module per kind."""
