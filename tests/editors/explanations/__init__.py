"""Explanations in real editors."""
