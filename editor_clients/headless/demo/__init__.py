"""A short editing session to watch: `efim-ls demo`."""
