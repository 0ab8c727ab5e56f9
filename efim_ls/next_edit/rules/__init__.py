"""The rules, one a file, and their sure proposals."""
