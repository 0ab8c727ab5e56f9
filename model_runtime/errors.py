"""Errors a user can act on."""


class ModelError(Exception):
    """A model cannot be used; the message names the cause and the remedy."""


class Fp16Overflow(ModelError):
    """The weights are beyond what fp16 holds; another format may hold them."""
