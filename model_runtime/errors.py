"""Errors a user can act on; each message names the cause and the remedy."""


class ModelError(Exception):
    """A model cannot be used."""


class EngineError(Exception):
    """An engine cannot answer a prompt now; the message contains nothing of the user's text."""


class Fp16Overflow(ModelError):
    """The weights are beyond what fp16 holds; another format may hold them."""
