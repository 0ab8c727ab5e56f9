"""What the project promises about cost and speed, measured; nothing here runs in the tests."""
