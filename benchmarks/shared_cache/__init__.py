"""A team's shared cache under load, with everything that can happen to its server."""
