"""Models that are named as on the Hugging Face hub.

Only weights in safetensors, the repository's JSON files and GGUF are fetched: no pickle, no code. A model that is
here in full is used without any request; downloads are stored in the hub's own cache. A user's token is sent only for
repositories that require one.
"""
