"""What is suggested: how much of it is shown, and what stays known while it is typed through."""
