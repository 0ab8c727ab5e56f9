"""What is told from the source alone: imports, the ways of parameters, and which tests drive which rooms."""
