"""The EFIM paper's experiment (arXiv 2505.21889, section 5): several users request completions in rounds."""
