"""Where editors get no suggestions, `complete` and `context` give none, alone and joined to a daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from efim_ls import cli
from efim_ls.access.rules import Rules
from efim_ls.session import one_shot
from efim_ls.settings import Settings
from efim_ls.workspace.index import Scope, open_index
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from tests.lsp.daemon.clients import clients
from tests.lsp.wire import ENV
from tests.waiting import HANG

SECRET = "DATABASE_PASSWORD=hunter2secretvalue\nBACKUP_PASSWORD="
OF_SECRETS = "the name of this file or of a folder above it suggests secrets, so its text is never used: rename it"
OF_MARKDOWN = "the entry 'markdown' in 'disabled_languages' turns suggestions off for this language: remove it"
PLACES = [
    (".env", OF_SECRETS), ("credentials.json", OF_SECRETS), ("id_rsa", OF_SECRETS), (".ssh/known", OF_SECRETS),
    ("notes.md", OF_MARKDOWN), ("notes.rst", "the entry 'restructuredtext' in 'disabled_languages'"),
    (".git/COMMIT_EDITMSG", "the entry 'git-commit' in 'disabled_languages'"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(path: Path, text: str = SECRET) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that refuses a place: one line, without a model."""
    monkeypatch.setattr(one_shot, "load", lambda *_: pytest.fail("a model was loaded"))  # pyright: ignore
    monkeypatch.setattr("efim_ls.commands.context.load", one_shot.load)
    assert cli.main(argv) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("efim-ls: ") and err.count("\n") == 1 and "hunter2" not in err
    return err.removeprefix("efim-ls: ")


@pytest.mark.parametrize("command", [["complete"], ["complete", "--json"], ["context"], ["context", "--json"]])
@pytest.mark.parametrize(("name", "why"), PLACES)
def test_a_file_that_is_off_gets_the_rule_in_place_of_a_suggestion(
    name: str,
    why: str,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = written(tmp_path / name)
    assert refused([*command, f"{file}:2:17"], monkeypatch, capsys).startswith(why)


def test_a_secret_file_is_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"\xff")
    assert refused(["complete", f"{file}:1:1"], monkeypatch, capsys).startswith(OF_SECRETS)


def test_a_link_is_judged_by_its_own_name_and_by_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, secret = written(tmp_path / "plain"), written(tmp_path / ".env")
    (tmp_path / "innocent").symlink_to(secret)
    (tmp_path / "id_rsa").symlink_to(plain)
    for name in ("innocent", "id_rsa"):
        assert refused(["complete", f"{tmp_path / name}:1:1"], monkeypatch, capsys).startswith(OF_SECRETS)


def indexed(folder: Path, settings: Settings) -> None:
    """Write the index of a folder as an editor with these settings leaves it."""
    scope = Scope.of(settings, Rules(settings), [folder], LanguageTokenizers(Tokenizer(EMBEDDED / "tokenizer.json")))
    open_index(scope, pytest.fail).close()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (Settings(disabled_files=("*/client/*",)), "the entry '*/client/*' in 'disabled_files'"),
        (Settings(disabled_files=("*/job",)), "the entry '*/job' in 'disabled_files'"),
        (Settings(disabled_languages=("python",)), "the entry 'python' in 'disabled_languages'"),
    ],
)
@pytest.mark.parametrize("is_cloned", [False, True])
def test_the_rules_of_the_editor_that_indexed_the_repository_hold(
    settings: Settings,
    why: str,
    is_cloned: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = written(tmp_path / "job" / "client" / "page.py", "#" * 2_000)
    indexed(tmp_path / "job", settings)
    if is_cloned:
        (tmp_path / "job" / "client" / ".git").mkdir()
    assert refused(["complete", f"{file}:1:1"], monkeypatch, capsys).startswith(why)
    assert refused(["context", f"{file}:1:1"], monkeypatch, capsys).startswith(why)
    assert one_shot.find_workspace(file, unindexed=True) == (
        (tmp_path / "job" / "client", settings, False) if is_cloned else (tmp_path / "job", settings, True)
    )


async def test_a_daemon_refuses_the_same_places(tmp_path: Path) -> None:
    ask = "from efim_ls.daemon.address import Address; import sys; print(Address.here().ask('complete', 60, path=sys"
    code = f"{ask}.argv[1], line=2, column=17, is_asked=False).decode())"
    env = {**ENV, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with clients(tmp_path / "cache", 1):
        for name, why in PLACES:
            command = [sys.executable, "-c", code, str(written(tmp_path / name))]
            told = json.loads(subprocess.run(command, env=env, capture_output=True, timeout=HANG, check=True).stdout)
            assert told.pop("failure").startswith(why)
            assert told == {"status": 1}
        os.mkfifo(pipe := tmp_path / "pipe.py")
        command = [sys.executable, "-c", code, str(pipe)]
        told = json.loads(subprocess.run(command, env=env, capture_output=True, timeout=HANG, check=True).stdout)
        why = f"{pipe} cannot be read: it is not a regular file"
        assert told == {"failure": why, "status": 2}
