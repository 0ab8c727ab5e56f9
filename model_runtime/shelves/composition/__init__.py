"""Fills arenas with keys and values that were computed after other tokens or at other places: an approximation."""
