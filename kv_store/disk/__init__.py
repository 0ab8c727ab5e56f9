"""The tier on disk: one file of slots and its index."""
