"""The model card: what the embedded model is, what it learnt from, and what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from model_runtime.training.corpus import Entry
from model_runtime.training.evaluate import Figures


@dataclass(frozen=True, slots=True)
class Training:
    """How a run went; `loss` is the mean of its last 100 steps in nats per token."""

    parameters: int
    tokens: int
    minutes: float
    loss: float


def model_card(training: Training, figures: Figures, entries: Sequence[Entry]) -> str:
    """Write the model card in Markdown."""
    learnt = [entry for entry in entries if not entry.held_out]
    held_out = ", ".join(sorted({entry.name for entry in entries if entry.held_out}))
    rows = [f"| {e.name} | {e.version} | {e.licence} | {e.files} | {e.bytes / 1000:.0f} |" for e in learnt]
    return _TEXT.format(
        millions=f"{training.parameters / 1e6:.1f}",
        tokens=f"{training.tokens / 1e6:.1f}",
        minutes=f"{training.minutes:.0f}",
        loss=f"{training.loss:.2f}",
        corpus=f"{sum(entry.bytes for entry in learnt) / 1e6:.0f}",
        held_out=held_out,
        bits=f"{figures.bits_per_character:.2f}",
        cursors=figures.cursors,
        exact=f"{figures.exact:.1%}",
        cached=f"{figures.exact_with_local_cache:.1%}",
        sources="\n".join(rows),
    )


_TEXT = """\
---
license: apache-2.0
language: code
pipeline_tag: text-generation
---
# The embedded model of efim-ls

A decoder of {millions} million parameters that completes Python code. It ships with the language server, so
that completion works without a download; a larger code model gives better suggestions.

## Prompts

`<|fim_prefix|>head<|fim_suffix|>tail<|fim_middle|>typed`, with the markers of Qwen2.5-Coder. The anchor
between head and typed is the start of a line, and the tail starts at the next line. The word at the cursor is
healed: the prompt ends before it, and its characters constrain the first new tokens. `<|endoftext|>` ends a
completion. The tokenizer is byte-level BPE with 8,192 entries; it always cuts before a line that is not blank,
so that lines can be tokenized apart. The context is 2,048 tokens.

## Training

From scratch, on the Python files of the distributions below: {corpus} MB without tests, vendored and generated
files and near duplicates. It saw {tokens} million tokens in {minutes} minutes on a CPU, in rows of 512 and then
2,048 tokens, and ended at a loss of {loss} nats per token. The architecture is Llama; the optimizers are Muon for
matrices and AdamW for embeddings and norms. Half of the windows are in the order above, cut like completions,
three quarters of these healed; 15 % are in EFIM's order with fragment tokenization (arXiv 2505.21889), 10 % are
plain infilling and 25 % plain text. `python -m model_runtime.training corpus`, `tokenizer` and `run` repeat the
method.

## Measured

On files of packages that it has not seen ({held_out}):

| figure | value |
| --- | --- |
| bits per character of plain text | {bits} |
| rest of the line exactly right, greedy, model alone | {exact} of {cursors} random cursors |
| the same with the server's local cache | {cached} |

## Limits

It finishes words, attributes and common phrases, and now and then a line; it knows little of what code means.
It learnt Python alone, mostly from libraries with English comments. It may spell out pieces of the files it
learnt from. Read what it suggests.

## Sources

Each distribution states a permissive licence in its metadata. The copyright of the files is their authors'.

| distribution | version | licence | files | kB |
| --- | --- | --- | --- | --- |
{sources}
"""
