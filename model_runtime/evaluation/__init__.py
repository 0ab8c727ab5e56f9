"""Measures how well a model completes, and how the order of its prompt matters; every figure with its interval."""

from model_runtime.evaluation.held_out import measure
from model_runtime.evaluation.report import Report, as_json, samples, table

__all__ = ["Report", "as_json", "measure", "samples", "table"]
