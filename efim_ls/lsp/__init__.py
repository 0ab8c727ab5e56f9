"""The protocol layer: the only package besides the headless client that imports pygls and lsprotocol."""
