"""Trains on an NVIDIA GPU: a million tokens a second of the embedded model's network on an H200."""
