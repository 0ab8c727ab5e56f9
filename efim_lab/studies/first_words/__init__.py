"""Which first word is shown where a name begins, with the letters of it that are typed."""
