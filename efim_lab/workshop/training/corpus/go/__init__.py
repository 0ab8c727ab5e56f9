"""Go for corpora: from Debian's packages of sources."""
