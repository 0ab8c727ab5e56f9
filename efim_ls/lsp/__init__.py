"""The protocol layer: the only package, with the headless client, that imports pygls and lsprotocol."""
