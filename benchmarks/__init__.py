"""Measures what the project promises about cost and speed; the tests do not run this."""
