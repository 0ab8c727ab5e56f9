"""Requests of editors that speak to llama.cpp, answered here."""
