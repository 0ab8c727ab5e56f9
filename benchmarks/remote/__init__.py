"""What a user waits for while an engine on another machine fails."""
