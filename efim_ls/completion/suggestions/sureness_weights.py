"""Weights of what makes a guess sure."""
GUESS = (0.0,) * 23
WORD = (0.0,) * 23
