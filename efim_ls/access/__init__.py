"""Where suggestions are allowed, which files are secret, and why there is no suggestion."""
