"""What the server knows of each language: records, and the table of them by name."""
