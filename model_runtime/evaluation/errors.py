"""The one error that evaluation shows to a user."""


class EvaluationError(Exception):
    """A mistake in what the user gave; the message is one line and says what to do."""
