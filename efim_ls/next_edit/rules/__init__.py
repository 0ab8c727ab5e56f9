"""The rules, one a file, and what they are sure enough of."""
