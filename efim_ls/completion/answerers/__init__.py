"""Who answers in a language: the model, or counts over the texts that are open and in the repository."""
