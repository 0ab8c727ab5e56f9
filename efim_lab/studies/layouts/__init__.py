"""Counts what prompts cost where other tools' layouts hold the same excerpts of other files."""
