"""Measures of a completion, their intervals and tables."""
