"""What speaks to the server."""
