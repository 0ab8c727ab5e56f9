"""Blocks of keys and values as bytes, outliving the process; no torch, no LSP."""
