"""What the server knows of a workspace's other files: which they are, and an index of them on disk."""
