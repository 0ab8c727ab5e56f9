"""Command line: `python -m model_runtime.training corpus|tokenizer|run`."""

import argparse
import itertools
import platform
import random
import signal
import sys
import sysconfig
from pathlib import Path

from model_runtime.training import bpe, corpus
from model_runtime.training.errors import TrainingError
from model_runtime.training.sources import Refused, Source, installed, standard_library

_TOKENIZER_SAMPLE = 40_000_000  # characters


def main(argv: list[str] | None = None) -> int:
    """Run one step of training; returns the exit status: 0, 1 after a one-line message, 130 if interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.step(arguments)
    except TrainingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; a run goes on from its last checkpoint with --resume", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m model_runtime.training", description="Train the embedded model.")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("corpus", help="gather permissively licensed Python files")
    step.add_argument("site_packages", nargs="+", type=Path, help="folders with installed distributions")
    step.add_argument("--out", type=Path, required=True)
    step.set_defaults(step=_corpus)
    step = steps.add_parser("tokenizer", help="train the tokenizer on a part of the corpus")
    step.add_argument("--corpus", type=Path, required=True, help="the folder that `corpus` wrote")
    step.add_argument("--out", type=Path, required=True)
    step.set_defaults(step=_tokenizer)
    step = steps.add_parser("run", help="train the model, export and measure it")
    step.add_argument("--corpus", type=Path, required=True, help="the folder that `corpus` wrote")
    step.add_argument("--tokenizer", type=Path, required=True, help="the folder that `tokenizer` wrote")
    step.add_argument("--minutes", type=float, required=True, help="training time")
    step.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    step.add_argument("--out", type=Path, required=True)
    step.set_defaults(step=_run)
    return parser


def _corpus(arguments: argparse.Namespace) -> int:
    found = [item for folder in arguments.site_packages for item in installed(folder)]
    refused = [item for item in found if isinstance(item, Refused)]
    sources = standard_library(Path(sysconfig.get_path("stdlib")), platform.python_version())
    sources += [item for item in found if isinstance(item, Source)]
    print(corpus.write(arguments.out, corpus.gather(sources), refused))
    return 0


def _tokenizer(arguments: argparse.Namespace) -> int:
    documents = corpus.read(arguments.corpus / "train.jsonl")
    random.Random(0).shuffle(documents)
    sizes = itertools.accumulate(len(document.text) for document in documents)
    sample = [d.text for d, size in zip(documents, sizes, strict=True) if size <= _TOKENIZER_SAMPLE]
    bpe.save(bpe.train(sample), arguments.out)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from model_runtime.training.run import run  # torch takes seconds to import

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the process that makes rows is left behind
    seconds = arguments.minutes * 60
    print(run(arguments.corpus, arguments.tokenizer, arguments.out, seconds, arguments.resume))
    return 0


if __name__ == "__main__":
    sys.exit(main())
