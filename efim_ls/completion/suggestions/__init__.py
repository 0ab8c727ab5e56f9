"""Suggestions: how much is shown, and how a suggestion survives typing through it."""
