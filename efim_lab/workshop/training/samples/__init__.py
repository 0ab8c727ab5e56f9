"""Turns documents into rows of training tokens."""
