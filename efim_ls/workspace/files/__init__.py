"""What a workspace's files hold: which of them may be read, their content, and the counts of it."""
