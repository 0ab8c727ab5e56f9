"""Models that our own decoder does not know: transformers computes them, over our arenas and with our attention."""
