"""Forward passes of this decoder beside those of transformers and llama.cpp."""
