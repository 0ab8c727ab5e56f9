"""From text to token ids: tokenizers, templates, prompts."""
