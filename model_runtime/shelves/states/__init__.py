"""Layers that have a state, which is of all tokens so far and cannot be cut: where it is kept."""
