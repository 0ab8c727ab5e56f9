"""What a tier that a team shares should keep: histories of repositories are replayed under several policies."""
