"""What the model may read of a workspace's other files: excerpts chosen from the index and the open documents."""
