"""`efim-ls models`: what there is, what one takes here, and which to choose."""
