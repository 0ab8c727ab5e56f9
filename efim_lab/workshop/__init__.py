"""Trains models and packs them; it may use the gate, and nothing uses it."""
