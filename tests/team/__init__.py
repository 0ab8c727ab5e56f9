"""Real servers with the embedded model, which whoever runs `make team-check` has started."""
