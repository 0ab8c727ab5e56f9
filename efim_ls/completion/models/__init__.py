"""Puts models into use."""
