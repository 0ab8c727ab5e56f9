"""An editor without a screen, for scripts, replays and the demo."""
