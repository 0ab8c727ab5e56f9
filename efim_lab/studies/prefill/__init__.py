"""Cold prefill of one prompt over several devices: simulated at given costs, and done by processes here."""
