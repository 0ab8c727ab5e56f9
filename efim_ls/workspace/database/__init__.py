"""The file of an index: its place, its tables, and what can be asked of them."""
