"""What the families of models compute, read from the fields of their configurations."""
