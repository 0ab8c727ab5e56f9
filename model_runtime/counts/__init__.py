"""Counts of what followed the last tokens in a repository's documents: no files, no tensors, no model."""
