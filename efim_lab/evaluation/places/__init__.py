"""Where completions are measured."""
