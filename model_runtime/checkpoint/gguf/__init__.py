"""A checkpoint in one GGUF file, as llama.cpp writes them: read as config.json, tokenizer.json and weights."""
