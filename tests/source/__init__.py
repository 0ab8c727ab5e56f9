"""What is told from the source alone: imports, and the ways of parameters."""
