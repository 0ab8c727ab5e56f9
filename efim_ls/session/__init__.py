"""What lives between messages, on the event loop, and the thread that computes."""
