"""Experiments, each with its table in docs/benchmarks; they may use the gate, and nothing uses them."""
