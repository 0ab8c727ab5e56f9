"""Where a prompt begins and ends: windows, anchors, frames, and the notes that keep them."""
