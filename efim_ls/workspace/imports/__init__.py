"""What files import, and how another file would."""
