"""Errors a user can act on."""


class ModelError(Exception):
    """A model cannot be used; the message names the cause and the remedy."""


class WorkError(Exception):
    """Training or measuring cannot continue; the message is one line that names the cause and the remedy."""
