"""Forward passes: by torch, by the compiled part, on a GPU and by transformers."""
