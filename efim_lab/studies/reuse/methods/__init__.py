"""Methods of composition that the server does not use, to compare with its own methods."""
