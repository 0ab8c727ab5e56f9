"""Local statistics: what was offered, accepted and kept."""
