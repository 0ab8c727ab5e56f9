"""Python for corpora: from distributions and the standard library."""
