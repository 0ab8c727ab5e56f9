"""Errors of the laboratory that a user can act on."""


class WorkError(Exception):
    """Training or measuring cannot go on; the message is one line that names the cause and the remedy."""
