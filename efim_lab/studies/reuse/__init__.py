"""Measures reuse of keys and values beyond a common prefix: composition, and context under a budget."""
