"""Filters that end a suggestion before it says again what it, or the file near it, has said."""
