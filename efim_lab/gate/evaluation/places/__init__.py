"""The places in held-out code at which completions are measured."""
