"""One completion, from a request to an answer with its costs, on the engine thread."""
