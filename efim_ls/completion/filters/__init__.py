"""Filters over a suggestion: pure functions of its text and its place, run by `chain.clean`."""
