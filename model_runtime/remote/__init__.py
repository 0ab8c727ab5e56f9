"""Engines on other machines: vLLM, llama.cpp's server, and servers with OpenAI's completions."""
