"""The next edit, by rule: what was done once or twice is offered at the next place, without a model."""
