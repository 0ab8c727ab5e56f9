"""Measures how well a model completes, for each order of the prompt; every figure comes with its interval."""

from efim_lab.gate.evaluation.held_out import measure
from efim_lab.gate.evaluation.report import HeldOutReport, as_json, samples, table

__all__ = ["HeldOutReport", "as_json", "measure", "samples", "table"]
