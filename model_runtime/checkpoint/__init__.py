"""A model's folder on disk: its configuration, its weight files and the hub they are fetched from."""
