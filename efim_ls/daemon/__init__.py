"""One process for all of a user's editors: it holds the model, and relays connect each client to it."""
