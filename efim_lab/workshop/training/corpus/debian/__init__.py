"""Languages whose corpora come from Debian's packages, of sources or installed."""
