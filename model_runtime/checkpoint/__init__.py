"""A model's folder on disk: configuration, weight files and where they are fetched from."""
