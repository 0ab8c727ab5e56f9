"""Measures a model where code uses its own project: with the repository's counts, and with text of other files."""
