"""Keys and values of token sequences: the tensors, the tokens that they hold and the frames that own them."""
