"""A forward pass: torch's, the compiled one, the GPU's and transformers'."""
