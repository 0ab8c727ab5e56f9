"""Models that are named as on the Hugging Face hub.

Only weights in safetensors and the JSON files beside them are asked for: no pickle, no code. What lies here in full
is used without a word to the network, and what is fetched lies in the hub's own cache. A user's token is sent only
for repositories that nobody can have without one.
"""
