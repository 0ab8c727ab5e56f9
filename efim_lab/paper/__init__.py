"""The experiment of the EFIM paper (arXiv 2505.21889, section 5): several users ask for completions in rounds."""
