"""Recorded editing sessions, replayed or counted."""
