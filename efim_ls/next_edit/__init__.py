"""The next edit, by rule: a change made once or twice is offered at the next place, without a model."""
