"""Fits how many suggestions of a model are shown to a user's own code: `efim-ls calibrate`."""
