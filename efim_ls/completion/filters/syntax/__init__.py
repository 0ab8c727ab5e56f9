"""Filters that read a suggestion and the code before it with a parser that recovers from errors."""
