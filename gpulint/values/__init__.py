"""Constant values of expressions, and where programs take options from."""
