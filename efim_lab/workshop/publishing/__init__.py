"""Models as packages that others install."""
