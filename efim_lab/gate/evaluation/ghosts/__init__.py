"""Counts the texts that a person sees in grey while typing, and how many of them are wrong."""
