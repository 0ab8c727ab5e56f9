"""The model in this process: tokenizer, prompt, decoder, arenas, engine."""
