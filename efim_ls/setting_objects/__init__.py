"""Settings that are objects, checked name by name."""
