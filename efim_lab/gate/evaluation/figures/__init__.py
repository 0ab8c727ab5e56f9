"""Metrics of completions, their confidence intervals and tables."""
