"""How good the next edits are, on histories of repositories."""
