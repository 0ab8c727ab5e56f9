"""Teaching a model that somebody else trained."""
