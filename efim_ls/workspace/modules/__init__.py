"""The names of Python's modules, in the standard library and the workspace's own environment."""
