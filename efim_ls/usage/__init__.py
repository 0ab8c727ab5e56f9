"""Local statistics of suggestions: offered, shown, accepted and kept."""
