"""The same keystrokes through this engine and through llama.cpp: milliseconds to the first new token.

llama.cpp has the matrices of the embedded model as F16 and as Q8_0, one thread, and does not compute again the
beginning that a prompt shares with the prompt before it. Its times are for computing alone; ours include planning and
tokenizing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.decoding.sides import llama_missing
from benchmarks.decoding.speed import write_ggufs
from benchmarks.decoding.targets import Reach, show_all
from benchmarks.table import show
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.policies import NO_IDS, POLICIES, Policy, PolicyPrompt
from efim_lab.gate.replay.report import percentile
from efim_lab.gate.replay.trace import Keystroke, Trace
from efim_ls.completion.models.open import fit_budget
from efim_ls.completion.planning.window import Budget
from efim_ls.settings import Settings
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.ids import Ids
from model_runtime.prompt.prompt import order_parts, window_ids
from model_runtime.prompt.template import Template, find_template
from model_runtime.prompt.tokenizer import Tokenizer

if TYPE_CHECKING:
    from benchmarks.decoding.llama import Llama

INFILL, SUFFIX_FIRST = "/infill", "/infill --spm-infill"
FIM, SPM, EFIM = "FIM in windows that stay", "suffix first in windows that stay", "our EFIM prompts"
BATCH = 1920  # tokens: the server's 2,048, less what an answer needs in the model's context
LEAST_CHUNK = 256  # tokens: what llama.vim recommends for --cache-reuse
THREADS = 1
RANKS = {"p50": 50, "p95": 95}
HEADER = ("", "tokens computed, mean", "p50", "p95", "times ours: p50", "p95")

Figures = dict[str, dict[str, float]]  # mean of computed tokens and milliseconds, by row


class Times(NamedTuple):
    """Milliseconds and computed tokens of each keystroke."""

    ms: list[float]
    tokens: list[int]


class Infill(Policy):
    """The prompts of llama.cpp's `/infill`: the nearest 3/4 of a batch before the cursor, 1/4 after it."""

    def __init__(self, tokenizer: Tokenizer, template: Template, suffix_first: bool = False) -> None:
        """Order them as `--spm-infill` does with `suffix_first`: typing appends then, while the file is short."""
        self._tokenizer, self._template, self._suffix_first = tokenizer, template, suffix_first

    def prompt(self, text: str, cursor: int) -> PolicyPrompt:
        """Return the prompt at a cursor."""
        before = self._tokenizer.encode(text[:cursor])[-(3 * (BATCH // 4)) :]
        after = self._tokenizer.encode(text[cursor:])[: BATCH // 4 - 2]
        order = replace(self._template, tail_first=self._suffix_first)
        return PolicyPrompt(window_ids(order_parts(order, before, after, NO_IDS)), 0, True)


def measure(recorded: Trace, efim: Mapping[str, Any]) -> dict[str, Any]:
    """Percentiles of llama.cpp's times by weights and prompts; `efim` are this engine's figures on the same trace."""
    if reason := llama_missing():
        print(f"llama.cpp's keystrokes are missing: {reason}")
        return {"missing": reason}
    with tempfile.TemporaryDirectory() as folder:
        found = _all_timed(list(trace.keystrokes(recorded)), Path(folder))
    ours = {"tokens": efim["foreground"]["mean"], **efim["ttft_ms"]}
    lines = [(name, *each.values(), *(each[rank] / ours[rank] for rank in RANKS)) for name, each in found.items()]
    show("milliseconds to the first new token", HEADER, [("efim-ls", *ours.values(), "", ""), *lines])
    reached = [
        Reach(
            f"the best of llama.cpp, {rank}, times ours", min(row[rank] for row in found.values()) / ours[rank], 1.0
        )
        for rank in RANKS
    ]
    reports = [each.report() for each in reached]
    show_all(reports)
    return {"ours": ours, "llama.cpp": found, "targets": reports}


def _all_timed(keystrokes: Sequence[Keystroke], folder: Path) -> Figures:
    """Time each kind of prompts with each kind of weights, without and with --cache-reuse."""
    from benchmarks.decoding.llama import Llama, Weights  # installed for `make bench` only

    config, tokenizer = read_config(EMBEDDED), Tokenizer(EMBEDDED / "tokenizer.json")
    policies = _policies(tokenizer, fit_budget(Settings(), config))
    asked = {name: _prompts(keystrokes, policy) for name, policy in policies.items()}
    found = Figures()
    write_ggufs(EMBEDDED, folder)
    for path in sorted(folder.glob("*.gguf")):
        weights = Weights(path)
        contexts = [Llama(weights, THREADS, config.context, flash) for flash in (False, True)]
        for name, prompts in asked.items():
            at_once = [_timed(llama, prompts[:1]).ms[0] for llama in contexts]
            fastest = contexts[at_once.index(min(at_once))]
            found[f"{path.stem}, {name}"] = _best(
                [_timed(each, prompts) for each in (contexts if name == EFIM else [fastest])]
            )
            found[f"{path.stem}, {name}, --cache-reuse"] = _best([_timed(fastest, prompts, LEAST_CHUNK)])
    return found


def _policies(tokenizer: Tokenizer, budget: Budget) -> dict[str, Policy]:
    template = find_template(tokenizer)
    return {
        INFILL: Infill(tokenizer, template),
        SUFFIX_FIRST: Infill(tokenizer, template, suffix_first=True),
        FIM: POLICIES["psm"](tokenizer, template, budget),
        SPM: POLICIES["spm"](tokenizer, template, budget),
        EFIM: POLICIES["efim"](tokenizer, template, budget),
    }


def _prompts(keystrokes: Sequence[Keystroke], policy: Policy) -> list[Ids]:
    """Return the server's prompts; prompts computed ahead change which frames its planner knows."""
    prompts = list[Ids]()
    for key in keystrokes:
        if key.rested:
            list(policy.prefetched(*key.rested))
        prompts.append(policy.prompt(key.text, key.cursor).ids)
    return prompts


def _timed(llama: Llama, prompts: Sequence[Ids], least_chunk: int = 0) -> Times:
    """Answer one prompt after the other, beginning with nothing computed."""
    llama.truncate(0)
    found = Times([], [])
    for ids in prompts:
        began = perf_counter()
        computed = llama.answer(ids, least_chunk)
        found.ms.append((perf_counter() - began) * 1e3)
        found.tokens.append(computed)
    return found


def _best(runs: Sequence[Times]) -> dict[str, float]:
    """The lower percentile of runs with one attention and another: llama.cpp's users choose."""
    ranks = {name: min(percentile(run.ms, percent) for run in runs) for name, percent in RANKS.items()}
    return {"tokens": mean(runs[0].tokens), **ranks}
