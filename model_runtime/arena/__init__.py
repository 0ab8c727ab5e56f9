"""Keys and values of token sequences: tensors, what they hold and whose they are."""
