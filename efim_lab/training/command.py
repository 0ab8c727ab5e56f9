"""Command line of `efim-ls train`: corpus, tokenizer, run, cache, or the fine-tuning of another model."""

import argparse
import itertools
import random
import signal
import sys
from pathlib import Path

from efim_lab import documents
from efim_lab.training.corpus import corpus
from efim_lab.training.corpus.sources import Refused, Source, found_in, here
from efim_lab.training.finetune import command as finetune_command
from efim_lab.training.samples import bpe
from efim_lab.training.samples.samples import WITHOUT_FRAGMENTS, Shares
from model_runtime.errors import ModelError, WorkError

_TOKENIZER_SAMPLE = 40_000_000  # characters


def main(argv: list[str] | None = None) -> int:
    """Run one step of training; returns the exit status: 0, 1 after a one-line message, 130 if interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    tunes = any(word.split("=")[0] == finetune_command.FLAG for word in argv)
    arguments = (finetune_command.parser() if tunes else _parser()).parse_args(argv)
    try:
        return arguments.step(arguments)
    except (ModelError, WorkError) as error:
        print(f"efim-ls train: {error}", file=sys.stderr)
        return 1
    except ImportError as error:  # of what is not installed, or too old
        reason = str(error).partition("\n")[0]
        print(f"efim-ls train: {reason}: run pip install '.[train]' in a clone of efim-ls", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; a run goes on from its last checkpoint with --resume", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "efim-ls train",
        description="Train a completion model on Python files.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"to fine-tune another model instead:\n\n{finetune_command.parser().format_help()}",
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")
    step = steps.add_parser("corpus", help="gather Python files under permissive licences")
    text = "a standard library, site-packages, or any folder of your own; default: those of the running Python"
    step.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=text)
    step.add_argument("--out", type=Path, required=True, metavar="DIR")
    step.set_defaults(step=_corpus)
    step = steps.add_parser("tokenizer", help="train the tokenizer on a part of the corpus")
    step.add_argument("--corpus", type=Path, required=True, metavar="DIR", help="the folder that `corpus` wrote")
    step.add_argument("--size", type=_size, default=bpe.VOCABULARY, help="entries (default %(default)s)")
    step.add_argument("--out", type=Path, required=True, metavar="DIR")
    step.set_defaults(step=_tokenizer)
    _add_run(steps.add_parser("run", help="train the model, export and measure it"))
    step = steps.add_parser("cache", help="fit the local cache to a model; `run` does it for its own")
    step.add_argument("--model", type=Path, required=True, metavar="DIR")
    step.add_argument("--data", type=Path, required=True, metavar="FILE", help="a tuning.jsonl that `corpus` wrote")
    step.set_defaults(step=_cache)
    return parser


def _add_run(step: argparse.ArgumentParser) -> None:
    step.add_argument("--corpus", type=Path, required=True, metavar="DIR", help="the folder that `corpus` wrote")
    step.add_argument("--tokenizer", type=Path, required=True, metavar="DIR", help="the folder `tokenizer` wrote")
    step.add_argument("--minutes", type=float, required=True, metavar="N", help="training time")
    step.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    step.add_argument("--from", dest="start", type=Path, metavar="DIR", help="begin with another run's weights")
    step.add_argument(
        "--decay", type=float, default=1.0, metavar="SHARE", help="part of the time in which the rate falls"
    )
    step.add_argument("--shares", type=_shares, default=Shares(), metavar="KIND=SHARE,...", help=_SHARES)
    text = "another model whose figures the model card shows in the same table"
    step.add_argument("--beside", type=Path, action="append", default=[], metavar="DIR", help=text)
    step.add_argument("--lines", type=int, default=1000, metavar="N", help="held-out lines to measure on; 0: none")
    step.add_argument("--out", type=Path, required=True, metavar="DIR")
    step.set_defaults(step=_run)


_SHARES = (
    "kinds of samples: plain, fim, fragments, efim, served, and cut (of those served); or without-fragments, the "
    "mixture that cuts no text inside a word but beside FIM markers"
)


def _shares(text: str) -> Shares:
    if text == "without-fragments":
        return WITHOUT_FRAGMENTS
    try:
        pairs = (pair.split("=") for pair in text.split(","))
        return Shares(
            **{"plain": 0, "fim": 0, "fragments": 0, "efim": 0, "served": 0} | {k: float(v) for k, v in pairs}
        )
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=SHARE,...: {error}") from error


def _size(text: str) -> int:
    if not text.isdecimal() or not 512 <= int(text) <= 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 512 to 65536")
    return int(text)


def _corpus(arguments: argparse.Namespace) -> int:
    found = [item for folder in arguments.folders or here() for item in found_in(folder)]
    refused = [item for item in found if isinstance(item, Refused)]
    sources = [item for item in found if isinstance(item, Source)]
    print(corpus.write(arguments.out, corpus.gather(sources, _warn), refused))
    return 0


def _warn(message: str) -> None:
    print(f"efim-ls train: {message}", file=sys.stderr)


def _tokenizer(arguments: argparse.Namespace) -> int:
    learnt = documents.read(arguments.corpus / "train.jsonl")
    random.Random(0).shuffle(learnt)
    sizes = itertools.accumulate(len(document.text) for document in learnt)
    sample = [d.text for d, size in zip(learnt, sizes, strict=True) if size <= _TOKENIZER_SAMPLE]
    bpe.save(bpe.train(sample, arguments.size), arguments.out)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from efim_lab.training.run import Order, run  # torch takes seconds to import

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the process that makes rows is left behind
    order = Order(
        corpus=arguments.corpus,
        tokenizer=arguments.tokenizer,
        out=arguments.out,
        seconds=arguments.minutes * 60,
        resume=arguments.resume,
        start=arguments.start,
        decay=arguments.decay,
        shares=arguments.shares,
        lines=arguments.lines,
        beside=arguments.beside,
    )
    print(run(order))
    return 0


def _cache(arguments: argparse.Namespace) -> int:
    from efim_lab.training import mixture

    print(mixture.fit_in_place(arguments.model, documents.read(arguments.data)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
