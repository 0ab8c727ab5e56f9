"""What one machine computed of committed text warms another machine of the team, and nothing else leaves it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import valkey

from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request
from efim_ls.setting_objects import MOST_PATIENCE
from efim_ls.settings import parse
from kv_store.shared.shelf import RETIRED_SECONDS
from model_runtime.cancel import NEVER
from model_runtime.engine.drafts import PassCosts
from tests.models import CODE, Tiny, make
from tests.shared.servers import redis
from tests.sized import ONE_PLACE, Sized
from tests.waiting import HANG

CURSOR = CODE.index("name, value = line")
SECRET = "password = 'planted'"
TEAM, OTHERS = "a" * 64, "b" * 64  # keys

Machine = Callable[..., Completer]


@pytest.fixture(scope="module", autouse=True)
def computing_takes_long(passes_take_the_same_time: None) -> Iterator[None]:
    """Let a pass take so long that reading is worth any wait: else a busy machine computes what a shelf has."""

    @contextmanager
    def timing(costs: PassCosts, rows: int) -> Iterator[None]:
        yield
        costs.record(rows, rows * 1e3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PassCosts, "timing", timing)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), Tiny("efim", context=2000))


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


@pytest.fixture
def machine(model: Path, tmp_path: Path, shelf: Path) -> Machine:
    """Starts a model on a machine of a team, each time with an empty cache of its own."""
    started = 0

    def start(key: str = TEAM, place: Path | str = shelf, **wanted: object) -> Completer:
        nonlocal started
        started += 1
        (tmp_path / "key").write_text(key)
        tier = {
            "url": place if isinstance(place, str) else place.as_uri(),
            "key_file": str(tmp_path / "key"),
            "patience_ms": MOST_PATIENCE,
        }
        asked, problems = parse({"shared_tier": tier})
        assert not problems
        settings = Sized(model=str(model), head_tokens=1200, max_new_tokens=8, memory_mib=ONE_PLACE)
        cache = str(tmp_path / f"cache-{started}")
        settings = replace(settings, cache_folder=cache, shared_tier=asked.shared_tier, **wanted)
        return Completer.load(settings, lambda *_: None)

    return start


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository that has committed `app.py`; `logs/` is ignored."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "app.py").write_text(CODE)
    (folder / ".gitignore").write_text("logs/\n")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    who = [word for name in ("user.name=a", "user.email=a@b.c") for word in ("-c", name)]
    for words in (("init",), ("add", "--all"), (*who, "commit", "--message=one")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def ask(completer: Completer, path: Path, text: str = CODE, cursor: int = CURSOR) -> Answer:
    return completer.complete(Request(path.as_uri(), text, cursor, explicit=True), NEVER)


def saved(completer: Completer, path: Path) -> None:
    assert completer.save(path.as_uri(), NEVER)
    assert completer.flush(HANG)
    completer.close(HANG)


def names(shelf: Path) -> set[str]:
    """The blocks on a shelf."""
    return {path.name for path in shelf.rglob("*") if path.is_file()}


def test_a_second_machine_computes_what_no_block_holds(machine: Machine, clone: Path, shelf: Path) -> None:
    first = machine()
    cold = ask(first, clone / "app.py")
    saved(first, clone / "app.py")
    assert cold.costs.fetched == 0 and names(shelf)
    second = machine()
    warm = ask(second, clone / "app.py")
    assert warm.text == cold.text
    assert warm.costs.fetched == warm.costs.reused > 100 and warm.costs.recomputed <= 16
    second.close(HANG)


def test_a_machine_without_the_key_sees_nothing(machine: Machine, clone: Path) -> None:
    first = machine()
    cold = ask(first, clone / "app.py")
    saved(first, clone / "app.py")
    stranger = machine(OTHERS)
    answer = ask(stranger, clone / "app.py")
    assert (answer.text, answer.costs.fetched) == (cold.text, 0)
    stranger.close(HANG)


@pytest.mark.parametrize("place", ["new.py", "logs/app.py", "private/app.py"])
def test_what_no_commit_has_stays_here(machine: Machine, clone: Path, shelf: Path, place: str) -> None:
    (clone / place).parent.mkdir(exist_ok=True)
    (clone / place).write_text(CODE)
    if place != "new.py":
        subprocess.run(["git", "add", "--force", place], cwd=clone, check=True)
        commit(clone)
    completer = machine(private_files=("private/",))
    ask(completer, clone / place)
    saved(completer, clone / place)
    assert not names(shelf)


@pytest.mark.parametrize("at", [0, CODE.index("\n\n", 200), CURSOR, CODE.rindex("\n")])
def test_typing_a_secret_shares_no_more_than_not_typing_it(
    machine: Machine, clone: Path, shelf: Path, tmp_path: Path, at: int
) -> None:
    clean = machine(place=tmp_path / "clean")
    ask(clean, clone / "app.py", CODE, at)
    ask(clean, clone / "app.py")
    saved(clean, clone / "app.py")

    typing, text = machine(), CODE
    for count in range(len(SECRET) + 1):
        text = CODE[:at] + SECRET[:count] + CODE[at:]
        ask(typing, clone / "app.py", text, at + count)
    (clone / "app.py").write_text(text)
    ask(typing, clone / "app.py", text, CURSOR + len(SECRET) * (at < CURSOR))
    saved(typing, clone / "app.py")
    assert names(shelf) <= names(tmp_path / "clean")
    assert all(SECRET.encode() not in path.read_bytes() for path in shelf.rglob("*") if path.is_file())


def test_what_a_commit_replaces_goes_before_what_it_keeps(machine: Machine, clone: Path, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with redis(tmp_path / "server") as server:
        client, completer = valkey.Valkey.from_url(server.url), machine(place=server.url)

        def retired() -> list[bool]:
            return [client.ttl(name) <= RETIRED_SECONDS for name in client.scan_iter()]  # type: ignore[operator]

        def save(text: str, cursor: int) -> None:
            ask(completer, clone / "app.py", text, cursor)
            assert completer.save((clone / "app.py").as_uri(), NEVER) and completer.flush(HANG)

        save(CODE, CURSOR)
        ask(completer, clone / "app.py", text := CODE[:300] + "# typed" + CODE[300:], CURSOR + 7)
        save(text, CURSOR + 7)
        assert len(retired()) > 8 and not any(retired())  # it was typed, and no commit has it
        (clone / "app.py").write_text(text)
        commit(clone)
        save(text, CURSOR + 7)
        assert any(retired()) and not all(retired())
        completer.close(HANG)


def test_a_server_that_is_not_there_costs_no_answer(
    machine: Machine, clone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(clone.parent / "shelf")  # a file where the folder should be
    completer = machine()
    assert ask(completer, clone / "app.py").costs.recomputed > 100
    saved(completer, clone / "app.py")
    assert sum("shared" in record.message for record in caplog.records) == 1
