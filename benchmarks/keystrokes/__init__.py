"""What a keystroke costs: counted, replayed, and typed into the real server."""
