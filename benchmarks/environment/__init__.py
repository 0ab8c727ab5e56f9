"""Benchmarks of what surrounds the server: the environment of a workspace, and what other processes take."""
