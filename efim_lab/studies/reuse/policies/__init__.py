"""Policies for context under a budget: which rows of the excerpts' keys and values are kept, and how."""
