"""Loads a checkpoint's folder as a model that is ready to run on this machine."""
