"""Models that our own decoder does not know: transformers computes them in our arenas, with our attention."""
