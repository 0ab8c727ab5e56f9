"""`efim-ls doctor`, run as a user runs it: a verdict first, then the facts."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from efim_ls.commands.doctor import PASSES, listed
from tests.compiled import require_compiled
from tests.lsp.wire import ENV
from tests.models import Tiny, make
from tests.processes import command_line, forks
from tests.waiting import HANG

DOCTOR = [sys.executable, "-m", "efim_ls", "doctor"]
VERDICT = r"works: (Python, JavaScript, TypeScript|all languages), a typical key takes about [\d.,]+ m?s"
RED = "\x1b[1;31m"


def run(*arguments: str, cache: Path, columns: int = 80) -> subprocess.CompletedProcess[str]:
    env = {**ENV, "COLUMNS": str(columns), "XDG_CACHE_HOME": str(cache)}
    return command_line.run("efim_ls", "doctor", *arguments, env=env)


def run_on_a_terminal(*arguments: str, cache: Path) -> tuple[int, str]:
    """The exit status and all that a terminal is sent."""
    env = {**ENV, "COLUMNS": "200", "TERM": "xterm-256color", "XDG_CACHE_HOME": str(cache)}
    main, terminal = pty.openpty()
    process = subprocess.Popen([*DOCTOR, *arguments], env=env, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(main, 1 << 16):
            shown += chunk
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(main)
    return process.wait(HANG), shown.decode()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("doctor") / "model")


def test_the_verdict_comes_first_and_then_sections_of_facts(tmp_path: Path) -> None:
    done = run(cache=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert re.fullmatch(VERDICT, first)
    sections = [line for line in lines if line and not line.startswith((" ", "slower than it could be: "))]
    assert sections == ["measured now", "model", "model of each language", "index of the working folder", "machine"]
    assert ["JavaScript,", "TypeScript", "embedded", "model", "for", "TypeScript"] in [line.split() for line in lines]
    for label in ("a typical key", "a cold place"):
        assert any(re.match(rf"  {label} +[\d.,]+ m?s: ", line) for line in lines)
    assert any(line.split() == ["weights", "fp16"] or line.startswith("  weights ") for line in lines)
    assert all(len(line) <= 80 for line in lines if line.startswith(" "))
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("languages", "told"),
    [
        (["*"], "all languages"), (["python"], "Python"), (["python", "go", "cpp"], "Python, Go, C++"),
        (["python", "go", "cpp", "rust"], "Python, Go, C++ and 1 more language"),
        (["python", "go", "cpp", "rust", "java"], "Python, Go, C++ and 2 more languages"),
    ],
)  # fmt: skip
def test_the_verdict_names_the_languages(languages: list[str], told: str) -> None:
    assert listed(languages) == told


def test_a_terminal_shows_what_it_is_doing_and_no_colour_where_all_is_well(model: Path, tmp_path: Path) -> None:
    status, shown = run_on_a_terminal("--model", str(model), cache=tmp_path)
    assert status == 0 and re.search(VERDICT, shown)
    steps = re.search(
        "loading the model|reading the |measuring keystrokes", shown
    )  # each may be too short to be seen
    assert steps and steps.start() < shown.find("works: ")
    assert RED not in shown


def test_what_is_wrong_is_red_on_a_terminal_only(tmp_path: Path) -> None:
    status, shown = run_on_a_terminal("--model", "./none", cache=tmp_path)
    assert status == 1 and f"{RED}does not work" in shown
    done = run("--model", "./none", cache=tmp_path)
    assert done.returncode == 1
    names = "models of the hub are named owner/name or owner/name@revision"
    told = f"'./none' is not a folder here, and {names}: name one or the other"
    assert done.stdout.startswith(f"does not work: {told}\n")
    assert "\x1b" not in done.stdout and "\nmachine\n" in done.stdout


def test_a_model_that_is_refused_while_loading_has_cause_and_remedy(tmp_path: Path) -> None:
    model = make(tmp_path / "model", Tiny(vocabulary=300))
    done = run("--model", str(model), cache=tmp_path)
    assert done.returncode == 1
    told = "tokenizer.json is another model's (the tokenizer has 400 tokens, the model 300): fetch the model again"
    assert done.stdout.startswith(f"does not work: {told}\n")
    assert "  gpu " in done.stdout


def test_a_cache_folder_that_cannot_be_written_is_wrong_though_suggestions_come(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("--model", str(model), cache=tmp_path / "file")
    assert done.returncode == 1
    first, second, *_ = done.stdout.splitlines()
    assert re.fullmatch(VERDICT, first)
    assert second.startswith(
        f"wrong: nothing can be written to {tmp_path / 'file' / 'efim-ls'}: check the permissions"
    )


def test_number_formats_are_timed_on_request_and_the_one_in_use_is_marked(model: Path, tmp_path: Path) -> None:
    require_compiled()
    lines = run("--model", str(model), "--measure", cache=tmp_path).stdout.splitlines()
    timed = lines[lines.index(PASSES) + 1 :]
    times = re.compile(r"  (\w+ (?:compiled|torch)) +[\d.]+, [\d.]+, [\d.]+(, in use)? *")
    found = [line for line in timed[: timed.index("")] if times.fullmatch(line)]
    assert [line.split()[0] for line in found][:2] == ["int8", "fp16"] and len(found) == timed.index("")
    assert [" ".join(line.split()[:2]) for line in found if "in use" in line] == ["int8 compiled"]
    assert PASSES not in run("--model", str(model), cache=tmp_path).stdout


def test_without_the_compiled_decoder_it_says_why_it_is_slower(model: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom efim_ls import cli\n"
        "from model_runtime.decoder.native import library\nlibrary.PATH = Path('none.so')\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    command = ["-c", code, "doctor", "--model", str(model)]
    env = {**ENV, "XDG_CACHE_HOME": str(tmp_path)}
    done = forks.run(command, env)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("slower than it could be: the compiled decoder is left out: ")


def test_of_a_larger_model_and_the_one_that_answers_before_it_both_are_measured(model: Path, tmp_path: Path) -> None:
    code = "import sys; from model_runtime.loading import threads; threads.LARGE = 1000; "
    code += f"from efim_ls.cli import main; main(['doctor', '--verbose', '--model', {str(model)!r}])"
    env = {**ENV, "COLUMNS": "200", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=False)
    first, *lines = done.stdout.splitlines()
    assert re.match(rf"{VERDICT}; before that the embedded model answers \(Python", first), done
    assert [line.split()[:2] for line in lines].count(["first", "suggestion"]) == 2
    assert any(re.search(r"threads reason +(half of|there is one)", line) for line in lines)


def test_how_the_model_is_computed_is_said_where_it_is_asked_for(model: Path, tmp_path: Path) -> None:
    brief, verbose = (run("--model", str(model), *each, cache=tmp_path).stdout for each in ((), ("--verbose",)))
    told = {text: re.findall(r"(?m)^  (\w+(?: \w+)?)  ", text) for text in (brief, verbose)}
    assert {"parameters", "languages", "weights"} <= {*told[brief]}
    assert {"arenas", "decoder reason", "head tokens"} <= {*told[verbose]} - {*told[brief]}
