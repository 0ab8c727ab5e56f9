"""Many people at one server: the requests of their keystrokes, and its answers."""
