"""Errors a user can act on."""


class ModelError(Exception):
    """A model cannot be used; the message names the cause and the remedy."""
