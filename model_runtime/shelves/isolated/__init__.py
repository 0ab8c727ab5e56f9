"""Excerpts of other files, each of which attends to itself alone, for models that were trained so."""
