"""The memory's look-ups and the order of its places, in C for any CPU."""
