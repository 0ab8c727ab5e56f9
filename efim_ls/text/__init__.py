"""A document's text and its lines."""
