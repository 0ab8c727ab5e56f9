"""Asks for suggestions by a key at held-out places, and judges all that come."""
