"""Filters that end a suggestion before it repeats itself, or the file near it."""
