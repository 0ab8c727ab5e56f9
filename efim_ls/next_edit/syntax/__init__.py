"""The syntax around a change: blocks that are parsed, definitions, and the arguments of calls."""
