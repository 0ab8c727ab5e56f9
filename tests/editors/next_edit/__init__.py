"""Next edits in real editors."""
