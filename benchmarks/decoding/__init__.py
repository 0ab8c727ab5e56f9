"""Forward passes of this decoder, compared with transformers and llama.cpp."""
