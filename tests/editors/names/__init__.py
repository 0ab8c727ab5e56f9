"""Names that the editors' other language servers list."""
