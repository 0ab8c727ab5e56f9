"""Who answers in a language."""
