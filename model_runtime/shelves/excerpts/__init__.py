"""Excerpts: text of other files in a prompt, and its token ids as the model's family reads several files."""
