"""The protocol's edge: the only room, beside the headless client, that imports pygls and lsprotocol."""
