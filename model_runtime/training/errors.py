"""The one error that training shows to a user."""


class TrainingError(Exception):
    """A mistake in what the user gave; the message is one line and says what to do."""
