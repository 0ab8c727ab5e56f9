"""State between messages, kept on the event loop, and the engine thread."""
