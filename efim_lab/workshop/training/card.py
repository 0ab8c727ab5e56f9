"""The model card: a model's description, its training text, and its figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from efim_lab.workshop.training.corpus.corpus import Manifest, ManifestEntry
from efim_lab.workshop.training.corpus.language import Part
from efim_lab.workshop.training.corpus.languages import titles
from efim_lab.workshop.training.samples.sample_maker import Shares
from model_runtime.prompt.template import LANGUAGE_MARKER


@dataclass(frozen=True, slots=True)
class PretrainingSummary:
    """How pretraining went; `loss` is the mean over its last 100 steps, in nats per token.

    A run that branched off another after `branched` tokens learnt these in the mixture `earlier_shares`.
    `excerpt_rows` is how many tokens of excerpts it was trained to read; `origin` are the languages of the finished
    model whose weights it began with, if any.
    """

    architecture: str
    parameters: int
    vocabulary: int
    context: int
    device: str
    tokens: int
    minutes: float
    loss: float
    shares: Shares
    branched: int = 0
    earlier_shares: Shares | None = None
    excerpt_rows: int = 0
    origin: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CardTables:
    """The measured tables in Markdown: prompts compared, what the n-grams add, and samples."""

    prompts: str
    ngrams: str
    samples: str


def model_card(training: PretrainingSummary, tables: CardTables, manifest: Manifest) -> str:
    """Write the model card in Markdown."""
    entries = manifest.packages
    learnt = [entry for entry in entries if entry.learnt]
    rows = [f"| {e.name} | {e.version} | {e.licence} | {e.files} | {e.bytes / 1000:.0f} |" for e in learnt]
    return _TEXT.format(
        language=titles(manifest.languages),
        start=_start(training.origin),
        architecture=training.architecture,
        millions=f"{training.parameters / 1e6:.1f}",
        vocabulary=f"{training.vocabulary:,}",
        context=f"{training.context:,}",
        corpus=f"{sum(entry.bytes for entry in learnt) / 1e6:.0f}",
        tokens=f"{training.tokens / 1e6:.1f}",
        minutes=f"{training.minutes:.0f}",
        device={"cpu": "CPU", "cuda": "GPU"}[training.device],
        loss=f"{training.loss:.2f}",
        mixture=_mixtures(training),
        marker=_MARKER.format(LANGUAGE_MARKER.format(manifest.languages[0])) if len(manifest.languages) > 1 else "",
        excerpts=_EXCERPTS.format(excerpt_rows=training.excerpt_rows) if training.excerpt_rows else "",
        held_out=_apart(entries, "heldout"),
        tuning=_apart(entries, "tuning"),
        tables=tables,
        sources="\n".join(rows),
    )


def _start(origin: Sequence[str]) -> str:
    """Say what weights the run began with: a finished model's, or random weights."""
    return f"From the weights of a model that knows `{'`, `'.join(origin)}`" if origin else "From scratch"


def _apart(entries: Sequence[ManifestEntry], part: Part) -> str:
    """Name the packages that were set apart; without any of them, files of all packages were."""
    return ", ".join(sorted({entry.name for entry in entries if entry.part == part})) or "files of all packages"


def _mixtures(training: PretrainingSummary) -> str:
    """Describe the mixture, or both in turn where a run branched off another."""
    last = mixture_text(training.shares)
    if training.earlier_shares is None:
        return f"The mixture: {last}."
    millions = f"{training.branched / 1e6:.1f}", f"{(training.tokens - training.branched) / 1e6:.1f}"
    first = f"The mixture of the first {millions[0]} million tokens: {mixture_text(training.earlier_shares)}."
    return f"{first}\n\nThe mixture of the last {millions[1]} million, while the learning rate fell to zero: {last}."


def mixture_text(shares: Shares) -> str:
    """Describe the mixture of samples in percent."""
    kinds = {
        "plain text": shares.plain,
        "infilling in the usual order": shares.fim,
        "infilling over fragments of 1 to 200 characters, tokenized apart": shares.fragments,
        "EFIM's order with a random increment": shares.efim,
        "this server's prompts": shares.served,
        "the same after excerpts of other files": shares.repository,
    }
    parts = [f"{share / sum(kinds.values()):.0%} {kind}" for kind, share in kinds.items() if share]
    return f"{', '.join(parts)} ({shares.cut:.0%} of them not healed)"


_EXCERPTS = """

Before all this, up to {excerpt_rows} tokens of excerpts of other files may stand, each `<|file_sep|>path`, a
line break and the text. Each sees itself alone; head and tail see none of them, and what follows
`<|fim_middle|>` sees all."""
_MARKER = " The marker of the language, as `{}`, follows `<|fim_prefix|>`."
_TEXT = """\
---
license: apache-2.0
language: code
pipeline_tag: text-generation
---
# A small model that completes {language}

A decoder of {millions} million parameters, made with `python -m efim_lab train`. A model of this size ships with
the language server, so that completion works without a download; a larger code model gives better suggestions. It
knows {language} alone and says so in its `config.json` (`programming_languages`): in other languages the server
does not ask it.

## Prompts

`<|fim_prefix|>head<|fim_suffix|>tail<|fim_middle|>typed`, with the markers of Qwen2.5-Coder.{marker} The anchor
between head and typed is the start of a line, best some lines above the cursor's, and the tail starts at the next
line. The word at the cursor is healed: the prompt ends before it, and its characters constrain the first new tokens.
`<|endoftext|>` ends a completion. The tokenizer is byte-level BPE with {vocabulary} entries; it always cuts before a
line that is not blank, so that lines can be tokenized apart. The context is {context} tokens.{excerpts}

## Training

{start}, on the {language} files of the packages below: {corpus} MB without tests, vendored and generated files,
near duplicates and licence notices. It saw {tokens} million tokens in {minutes} minutes on a {device}, in rows of two
lengths up to the context, and ended at a loss of {loss} nats per token. The network is {architecture};
the optimizers are Muon for the layers' products and AdamW for everything else.

{mixture}

Spans are cut like completions: the rest of a line, further lines, a block, a part of a line. Fragments are EFIM's
(arXiv 2505.21889).

![loss over tokens](loss.png)

## Measured

On code that it has not seen ({held_out}): a random character cursor in a line, inside words
too, 1,400 characters before it and 500 after its line, greedy. `server` is what the language server does: EFIM line
healed, with the n-grams. `heuristic` asks no model: it takes the rest of the last earlier line that begins alike,
or else the rest of the last such word. `recomputed/key` is how many tokens go through the model before the first new
token at each key of these lines up to the cursor, after all keys before it; the median is of all keys.

{tables.prompts}

Ten samples, the first of these lines in order:

{tables.samples}

The n-grams were fitted on more such code ({tuning}), and are judged here on the files of it
that they were not fitted on, with up to 1,024 tokens before the cursor, the rest of the file, and four more
files of the same project open:

{tables.ngrams}

## Limits

It finishes words, attributes and common phrases, and now and then a line; it knows little of what code means. In
FIM's usual order it completes fewer lines, as the table says: ask it in the order above. It learnt {language} alone,
mostly from libraries with English comments. It may spell out pieces of its training files. Review its
suggestions.

## Sources

With the licences that they state. The copyright of the files is their authors'.

| package | version | licence | files | kB |
| --- | --- | --- | --- | --- |
{sources}
"""
