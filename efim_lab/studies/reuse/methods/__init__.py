"""Methods of composition that the server does not use: measured beside those that it does."""
