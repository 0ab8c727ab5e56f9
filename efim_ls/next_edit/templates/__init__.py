"""What two changes have in common whose tokens differ: a template with holes."""
