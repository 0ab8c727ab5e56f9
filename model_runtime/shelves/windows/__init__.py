"""Layers that see the last tokens alone, and keep the rows of these."""
