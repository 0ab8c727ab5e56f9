"""Weights of checkpoints joined as decoders compute with them. Needs no torch."""
