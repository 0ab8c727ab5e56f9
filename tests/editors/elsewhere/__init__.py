"""A model on another machine, behind real editors."""
