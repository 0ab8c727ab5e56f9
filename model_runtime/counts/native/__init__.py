"""The look-ups of counts and the order of their places, in C for any CPU."""
