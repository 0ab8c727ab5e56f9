"""Which names Python's modules have: those of the standard library and of the workspace's own environment."""
