"""TypeScript and JavaScript for corpora: from packages that ship their sources."""
