"""The command line of `python -m efim_lab train`: the steps of pretraining, or fine-tuning an existing model."""

import argparse
import itertools
import math
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from efim_lab.gate import documents
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus import corpus
from efim_lab.workshop.training.corpus.language import CorpusLanguage, CorpusSource, RefusedPackage
from efim_lab.workshop.training.corpus.languages import LANGUAGES
from efim_lab.workshop.training.finetune import command as finetune_command
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.sample_maker import WITHOUT_FRAGMENTS, Shares
from efim_ls.commands.arguments import Parser, add_command, epilog, wrapped
from model_runtime.errors import ModelError

if TYPE_CHECKING:
    from efim_ls.commands.arguments import Subparsers

_PROGRAM = "python -m efim_lab train"
_TOKENIZER_SAMPLE = 40_000_000  # characters
_EXAMPLES = (
    "python -m efim_lab train corpus src --out py",
    "python -m efim_lab train tokenizer --corpus py --out py",
    "python -m efim_lab train run --corpus py --tokenizer py --tokens 200 --out run",
)


def main(argv: list[str] | None = None) -> int:
    """Run one step of training; return the exit status: 0, 1 after a one-line message, 130 if interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    tunes = any(word.split("=")[0] == finetune_command.FLAG for word in argv)
    arguments = (finetune_command.build_parser() if tunes else build_parser()).parse_args(argv)
    try:
        return arguments.step(arguments)
    except (ModelError, WorkError) as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 1
    except ImportError as error:  # a package is missing or too old
        reason = str(error).partition("\n")[0]
        print(f"{_PROGRAM}: {reason}: run pip install --editable '.[train]' in the clone", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped: continue a run from its last checkpoint with --resume", file=sys.stderr)
        return 130


def build_parser() -> Parser:
    """Return the parser for training from scratch; `--help` shows fine-tuning's as well."""
    about = "Train a completion model on Python files, in steps: gather a corpus, train a tokenizer on it, train the "
    about += "model. With --base, fine-tune an existing model instead."
    finetuning = finetune_command.build_parser().format_help()
    parser = Parser(
        _PROGRAM,
        description=wrapped(about),
        epilog=f"{epilog(*_EXAMPLES)}\n\nto fine-tune an existing model instead:\n\n{finetuning}",
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")
    _add_gathering(steps)
    _add_join(steps)
    _add_overlap(steps)
    summary = "train the tokenizer on part of the corpus"
    step = add_command(steps, "tokenizer", summary, "python -m efim_lab train tokenizer --corpus py --out py")
    step.add_argument("--corpus", type=Path, required=True, metavar="DIR", help=_CORPUS)
    size = "the number of vocabulary entries (default: %(default)s)"
    step.add_argument("--size", type=_size, default=bpe.VOCABULARY, metavar="N", help=size)
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the tokenizer to")
    step.set_defaults(step=_tokenizer)
    _add_run(steps)
    summary = "write a run's weights, settings and place in the data to a small folder"
    step = add_command(steps, "snapshot", summary, "python -m efim_lab train snapshot --run run --out snapshot")
    step.add_argument("--run", type=Path, required=True, metavar="DIR", help="the folder of the run")
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the snapshot")
    step.set_defaults(step=_snapshot)
    summary = "fit n-grams and counts of the repository to a model; `run` does this for the model it trains"
    line = "python -m efim_lab train cache --model run/export --data py/tuning.jsonl"
    step = add_command(steps, "cache", summary, line)
    step.add_argument("--model", type=Path, required=True, metavar="DIR", help="the model's folder")
    data = "a tuning.jsonl written by `corpus`, or a folder of packages"
    step.add_argument("--data", type=Path, required=True, metavar="PATH", help=data)
    step.set_defaults(step=_cache)
    _add_sureness(steps)
    _add_compact(steps)
    _add_wheel(steps)
    summary = "measure what isolated excerpts cost a model that was trained with them"
    step = add_command(
        steps, "masks", summary, "python -m efim_lab train masks --model run/export --data py/heldout.jsonl"
    )
    step.add_argument("--model", type=Path, required=True, metavar="DIR", help="the model's folder")
    step.add_argument("--data", type=Path, required=True, metavar="PATH", help=_HELD_OUT)
    count = "the number of lines (default: %(default)s)"
    step.add_argument("--places", type=int, default=600, metavar="N", help=count)
    step.set_defaults(step=_masks)
    return parser


def _add_sureness(steps: "Subparsers") -> None:
    summary = "fit how sure a suggestion is to what the model and the file say; prints what each level would show"
    line = "python -m efim_lab train sureness --model run/export --data go/tuning.jsonl"
    step = add_command(steps, "sureness", summary, line)
    step.add_argument(
        "--model", type=Path, required=True, metavar="DIR", help="the model's folder, which gets the weights"
    )
    packages = "a tuning.jsonl, or a folder with a folder for each package, that the model has not read"
    step.add_argument("--data", type=Path, required=True, metavar="PATH", help=packages)
    lines = "the number of lines to type (default: %(default)s)"
    step.add_argument("--lines", type=int, default=800, metavar="N", help=lines)
    step.set_defaults(step=_sureness)


def _add_compact(steps: "Subparsers") -> None:
    summary = "write a model as it ships: smaller, in int8, with the same answers by the compiled decoder"
    line = "python -m efim_lab train compact --model run/export --out compact"
    step = add_command(steps, "compact", summary, line)
    step.add_argument("--model", type=Path, required=True, metavar="DIR", help="the folder that `run` exported")
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the model to")
    step.set_defaults(step=_compact)


def _add_wheel(steps: "Subparsers") -> None:
    summary = "pack a model as a wheel, which the server finds once it is installed in the same environment"
    line = "python -m efim_lab train wheel --model run/export --name efim-ls-go --out dist"
    step = add_command(steps, "wheel", summary, line)
    model = "the model's folder; its config.json names the languages"
    step.add_argument("--model", type=Path, required=True, metavar="DIR", help=model)
    step.add_argument("--name", required=True, metavar="NAME", help="the package's name, with hyphens")
    step.add_argument("--version", default="1.0", metavar="VERSION", help="its version (default: %(default)s)")
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the wheel to")
    step.set_defaults(step=_wheel)


def _add_gathering(steps: "Subparsers") -> None:
    summary = "download packages for `corpus`; none is installed or run"
    lines = (
        "python -m efim_lab train fetch --out fetched",
        "python -m efim_lab train fetch --language go --out fetched",
    )
    step = add_command(steps, "fetch", summary, *lines)
    _add_language(step)
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder to unpack them to")
    step.set_defaults(step=_fetch)
    summary = "gather code files under permissive licences"
    lines = (
        "python -m efim_lab train corpus --fetched fetched --out py",
        "python -m efim_lab train corpus --language go --fetched fetched --out go",
        "python -m efim_lab train corpus src --out py",
    )
    step = add_command(steps, "corpus", summary, *lines)
    text = "a folder of your own or, of Python, a standard library or a site-packages folder (default: the running "
    text += "Python's)"
    step.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=text)
    _add_language(step)
    added = "also read the packages that `fetch` wrote to this folder"
    step.add_argument("--fetched", type=Path, metavar="DIR", help=added)
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the corpus to")
    step.set_defaults(step=_corpus)


def _add_join(steps: "Subparsers") -> None:
    summary = "join corpora of several languages, for a model that knows them all"
    line = "python -m efim_lab train join java php --most 75 --least 15 --out joined"
    step = add_command(steps, "join", summary, line)
    step.add_argument("corpora", nargs="+", type=Path, metavar="DIR", help="folders written by `corpus`")
    most = "the most megabytes to train on of each (default: all)"
    step.add_argument("--most", type=_millions, default=sys.maxsize, metavar="MB", help=most)
    least = "the least megabytes to train on of each: a smaller corpus is repeated, up to four times in all"
    step.add_argument("--least", type=_millions, default=0, metavar="MB", help=least)
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the corpus to")
    step.set_defaults(step=_join)


def _add_language(step: argparse.ArgumentParser) -> None:
    text = "the language of the files; typescript is JavaScript, too (default: %(default)s)"
    step.add_argument("--language", choices=tuple(LANGUAGES), default="python", help=text)


def _add_overlap(steps: "Subparsers") -> None:
    summary = "find what of held-out code stands in the text to train on"
    step = add_command(
        steps, "overlap", summary, "python -m efim_lab train overlap --corpus py --data py/heldout.jsonl"
    )
    step.add_argument("--corpus", type=Path, required=True, metavar="DIR", help=_CORPUS)
    step.add_argument("--data", type=Path, required=True, metavar="PATH", help=_HELD_OUT)
    step.set_defaults(step=_overlap)


def _add_run(steps: "Subparsers") -> None:
    line = "python -m efim_lab train run --corpus py --tokenizer py --tokens 200 --out run"
    step = add_command(steps, "run", "train the model, export it and measure it", line)
    step.add_argument("--corpus", type=Path, required=True, metavar="DIR", help=_CORPUS)
    step.add_argument("--tokenizer", type=Path, required=True, metavar="DIR", help=_TOKENIZER)
    tokens = "the millions of tokens to train on; may be raised on --resume until the learning rate begins to fall"
    step.add_argument("--tokens", type=_millions, required=True, metavar="N", help=tokens)
    resume = "continue from the newest checkpoint in --out or, if it has none, from the snapshot in --from"
    step.add_argument("--resume", action="store_true", help=resume)
    start = "branch off another run: its weights, optimizer state and the data after its position, for N more "
    start += "tokens; or train a finished model further, at a third of the learning rate"
    step.add_argument("--from", dest="start", type=Path, metavar="DIR", help=start)
    decay = "the share of the tokens, at the end, in which the learning rate falls to zero (default: %(default)s)"
    step.add_argument("--decay", type=float, default=0.2, metavar="SHARE", help=decay)
    step.add_argument("--shares", type=_shares, default=Shares(), metavar="KIND=SHARE,...", help=_SHARES)
    beside = "another model to compare with in the model card; may be repeated"
    step.add_argument("--beside", type=Path, action="append", default=[], metavar="DIR", help=beside)
    lines = "held-out lines to measure on every 25 million tokens and at the end, 0 for none (default: %(default)s)"
    step.add_argument("--lines", type=int, default=1000, metavar="N", help=lines)
    step.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the run")
    step.set_defaults(step=_run)


_CORPUS, _TOKENIZER = "the folder written by `corpus`", "the folder written by `tokenizer`"
_HELD_OUT = "a heldout.jsonl written by `corpus`, or a folder of packages"
_SHARES = (
    "the mixture of samples: plain, fim, fragments, efim, served, repository (served, after excerpts of other "
    "files), cut (the part of the last two that is not healed) and whole (the part of repository that is seen whole "
    "instead of with isolated excerpts); or without-fragments, the mixture that cuts words only next to FIM markers"
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
        raise argparse.ArgumentTypeError(f"expected KIND=SHARE,..., got {text!r}: {error}") from error


def _millions(text: str) -> int:
    millions = finetune_command.number(text)
    count = round(millions * 1e6) if math.isfinite(millions) else 0
    if count <= 0:
        raise argparse.ArgumentTypeError(f"expected a positive number of millions, got {text!r}")
    return count


def _size(text: str) -> int:
    if not text.isdecimal() or not 512 <= int(text) <= 65536:
        raise argparse.ArgumentTypeError(f"expected a whole number from 512 to 65536, got {text!r}")
    return int(text)


def _fetch(arguments: argparse.Namespace) -> int:
    LANGUAGES[arguments.language].fetch(arguments.out)
    print(arguments.out)
    return 0


def _corpus(arguments: argparse.Namespace) -> int:
    language: CorpusLanguage = LANGUAGES[arguments.language]
    folders = [*(arguments.folders or language.folders())]
    if arguments.fetched:
        folders += language.fetched(arguments.fetched)
    if not folders:
        raise WorkError(f"no folder with {language.title} files was named: name one, or --fetched")
    found = [item for folder in folders for item in language.found_in(folder)]
    refused = [item for item in found if isinstance(item, RefusedPackage)]
    sources = [item for item in found if isinstance(item, CorpusSource)]
    gathered = corpus.gather(language, sources, _warn, progress=_report)
    print(corpus.write(arguments.out, language, gathered, refused))
    return 0


def _join(arguments: argparse.Namespace) -> int:
    print(corpus.join(arguments.corpora, arguments.most, arguments.least, arguments.out))
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def _warn(message: str) -> None:
    print(f"{_PROGRAM}: {message}", file=sys.stderr)


def _overlap(arguments: argparse.Namespace) -> int:
    from efim_lab.gate.evaluation.held_out_data import read_held_out
    from efim_lab.workshop.training.corpus import overlap

    learnt = documents.read_documents(arguments.corpus / "train.jsonl")
    print(overlap.report(overlap.overlaps(learnt, read_held_out(arguments.data))))
    return 0


def _tokenizer(arguments: argparse.Namespace) -> int:
    learnt = documents.read_documents(arguments.corpus / "train.jsonl")
    random.Random(0).shuffle(learnt)
    sizes = itertools.accumulate(len(document.text) for document in learnt)
    sample = [d.text for d, size in zip(learnt, sizes, strict=True) if size <= _TOKENIZER_SAMPLE]
    languages = corpus.read_manifest(arguments.corpus / corpus.MANIFEST).languages
    bpe.save(bpe.train(sample, arguments.size, languages if len(languages) > 1 else ()), arguments.out)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from efim_lab.workshop.training.pretraining import PretrainingJob, pretrain  # importing torch takes seconds

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the process that makes rows is orphaned
    job = PretrainingJob(
        corpus=arguments.corpus,
        tokenizer=arguments.tokenizer,
        out=arguments.out,
        tokens=arguments.tokens,
        resume=arguments.resume,
        start=arguments.start,
        decay=arguments.decay,
        shares=arguments.shares,
        lines=arguments.lines,
        beside=arguments.beside,
    )
    print(pretrain(job))
    return 0


def _snapshot(arguments: argparse.Namespace) -> int:
    from efim_lab.workshop.training.run.snapshot import write_snapshot  # importing torch takes seconds

    print(write_snapshot(arguments.run, arguments.out))
    return 0


def _cache(arguments: argparse.Namespace) -> int:
    from efim_lab.gate.evaluation.held_out_data import read_held_out
    from efim_lab.workshop.training import mixture

    print(mixture.fit_in_place(arguments.model, read_held_out(arguments.data)))
    return 0


def _compact(arguments: argparse.Namespace) -> int:
    from efim_lab.workshop.publishing.compact import write_compact

    print(write_compact(arguments.model, arguments.out))
    return 0


def _wheel(arguments: argparse.Namespace) -> int:
    from efim_lab.workshop.publishing.wheel import ModelPackage, write_wheel

    print(write_wheel(ModelPackage(arguments.model, arguments.name, arguments.version), arguments.out))
    return 0


def _sureness(arguments: argparse.Namespace) -> int:
    from efim_lab.gate.evaluation.held_out_data import read_held_out
    from efim_lab.workshop.training.sureness.report import fit_sureness

    print(fit_sureness(arguments.model, read_held_out(arguments.data), arguments.lines, _report))
    return 0


def _masks(arguments: argparse.Namespace) -> int:
    from efim_lab.gate.evaluation.held_out_data import read_held_out
    from efim_lab.workshop.training.run.mask_check import check_masks

    print(check_masks(arguments.model, read_held_out(arguments.data), arguments.places))
    return 0
