"""A step between two passes, in C for any CPU."""
