"""From documents to rows of tokens."""
