"""Mixtures whose experts have no room together: on disk and, simulated, with a GPU."""
