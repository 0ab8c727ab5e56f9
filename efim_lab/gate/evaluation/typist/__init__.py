"""Types held-out lines key by key in their whole files, and counts what suggestions save."""
