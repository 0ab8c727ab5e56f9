"""The syntax around a change: blocks that are parsed, definitions, and what is passed to them."""
