"""Where the experts of a model are that memory has no room for: on disk, and in memory while tokens want them."""
