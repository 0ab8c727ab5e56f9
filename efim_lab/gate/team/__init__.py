"""Many people at one server: what their keystrokes ask of it, and what it answers."""
