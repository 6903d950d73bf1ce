"""What names and expressions mean: symbols, reaching definitions, classes, the call graph, points-to."""
