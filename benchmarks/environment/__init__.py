"""Benchmarks of what is known of the environment that a workspace's code runs in."""
