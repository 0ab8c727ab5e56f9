"""Completions over HTTP, in the dialects of other servers, for clients that were written for those."""
