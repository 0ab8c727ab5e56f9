"""Where suggestions are given: every rule, their order, and what is told of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.access.rules import Rules
from efim_ls.access.secrets import may_reach_disk
from efim_ls.languages.table import PROSE
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.settings import MOST_CHARACTERS, Settings
from efim_ls.usage.counters import Counters

CODE = "file:///home/me/job/app.py"


def reason(
    uri: str = CODE, language: str = "python", size: int = 9, folders: tuple[str, ...] = (), **settings: Any
) -> str | None:
    """Why a document is left out, None if it is not."""
    off = Rules(Settings(**settings), folders).verdict(uri, language).refusal(size)
    return off and off.reason


def test_code_gets_suggestions() -> None:
    assert reason() is None


@pytest.mark.parametrize(
    ("settings", "expected", "words"),
    [
        ({"enabled": False}, "disabled", ["'enabled'"]),
        ({"disabled_languages": ("rust", "Python")}, "language off", ["'disabled_languages'", "'python'"]),
        ({"disabled_files": ("*.rs", "*.PY")}, "file off", ["'disabled_files'", "'*.PY'"]),
        ({"disabled_files": ("~", "/home/me/job")}, "file off", ["'disabled_files'", "'/home/me/job'"]),
        ({}, "file too large", ["4,194,305", "4,194,304"]),
    ],
)
def test_each_rule_leaves_out_and_names_its_setting(
    settings: dict[str, Any], expected: str, words: list[str]
) -> None:
    off = Rules(Settings(**settings)).verdict(CODE, "python").refusal(MOST_CHARACTERS + 1)
    assert off is not None and off.reason == expected
    assert all(word in off.why for word in words), off.why


def test_the_first_rule_of_the_order_is_told() -> None:
    settings = Settings(
        enabled=False,
        disabled_languages=("dotenv",),
        disabled_files=("*",),
    )
    uri = "file:///home/me/.env"
    for lifted, expected in [
        ({}, "disabled"),
        ({"enabled": True}, "secret file"),
        ({}, "language off"),
        ({"disabled_languages": ()}, "file off"),
        ({"disabled_files": ()}, "file too large"),
    ]:
        settings = replace(settings, **lifted)
        off = Rules(settings).verdict(uri, "dotenv").refusal(MOST_CHARACTERS + 1)
        assert off is not None and off.reason == expected
        uri = uri.replace(".env", "app.py") if expected == "secret file" else uri
    assert Rules(settings).verdict(uri, "dotenv").refusal(MOST_CHARACTERS) is None


@pytest.mark.parametrize("language", ["plaintext", "Markdown", "git-commit", "gitcommit", "scminput", "text", "rst"])
def test_prose_and_messages_get_none_unless_the_user_wants_it(language: str) -> None:
    assert reason(language=language) == "language off"
    others = tuple(each for each in PROSE if each != language.lower())
    assert reason(language=language, disabled_languages=others) is None


@pytest.mark.parametrize("language", ["python", "typescriptreact", "yaml", "json", "latex", "dockerfile", "sql", ""])
def test_other_languages_get_them(language: str) -> None:
    assert reason(language=language) is None


@pytest.mark.parametrize(
    "uri",
    [
        "file:///home/me/project/.env",
        "file:///home/me/project/.env.local",
        "file:///home/me/project/.env.js",
        "file:///home/me/project/prod.ENV",
        "file:///home/me/.ssh/config",
        "file:///home/me/.aws/credentials",
        "file:///home/me/id_ed25519",
        "file:///srv/server.pem",
        "file:///home/me/project/secrets.yaml",
        "file:///home/me/project/secrets.sh",
        "file:///home/me/project/credentials.json",
        "file:///home/me/project/passwords.sql",
        "file:///home/me/project/secrets/db.txt",
        "file:///home/me/infra/prod.tfvars",
        "file:///c%3A/Users/me/.env",
        "vscode-remote://ssh-remote%2Bhost/home/me/.env",
        "untitled:/home/me/.env",
        "git:/home/me/.env?%7B%22ref%22%3A%22HEAD%22%7D",
        "vscode-notebook-cell:/home/me/.ssh/notes#W0",
    ],
)
def test_files_of_secrets_get_none(uri: str) -> None:
    assert reason(uri, "properties") == "secret file"
    assert not Rules(Settings()).verdict(uri, "properties").may_be_read(9)


@pytest.mark.parametrize(
    "path", ["secrets.py", "credentials.ts", "password.RB", "secrets/vault.go", "gcloud/deploy.py", "app.env.d.ts",
             "id_rsa_parser.rs", "password.html.erb", "secrets.tf", "secrets.ipynb"],
)  # fmt: skip
def test_programs_that_deal_with_secrets_get_them_but_others_are_not_completed_from_them(path: str) -> None:
    uri = f"file:///home/me/project/{path}"
    assert reason(uri) is None
    assert not Rules(Settings()).verdict(uri, "python").may_be_read(9)


@pytest.mark.parametrize(
    ("uri", "pattern", "off"),
    [
        (CODE, "app.py", True),
        (CODE, "job", True),
        (CODE, "job/*", True),
        (CODE, "*/me/*.py", True),
        (CODE, "/home/me/job/app.py", True),
        (CODE, "other.py", False),
        (CODE, "pp.py", False),
        (CODE, "/job/app", False),
        ("file:///app/%5Bid%5D/page.tsx", "[id]/page.tsx", True),
        ("file:///app/i/page.tsx", "[id]/page.tsx", False),
        ("vscode-notebook-cell:/home/me/job/a.ipynb#W1", "*.ipynb", True),
        ("vscode-remote://wsl%2Bdebian/home/me/job/app.py", "job/*", True),
        ("vscode-vfs://github/me/job/app.py", "job", True),
        ("untitled:Untitled-1", "*", False),
        ("app.py", "*", False),
        ("", "*", False),
        ("file:///home/a%00b.py", "*b.py", True),
    ],
)
def test_a_pattern_means_files_by_name_folder_and_path(uri: str, pattern: str, off: bool) -> None:
    assert (reason(uri, disabled_files=(pattern,)) == "file off") is off


def test_a_blank_pattern_means_nothing_and_hides_none_after_it() -> None:
    assert reason(CODE, disabled_files=("",)) is None
    assert reason(CODE, disabled_files=("", "*.py")) == "file off"


def test_a_name_that_no_file_can_have_is_judged_as_it_is() -> None:
    assert reason("file:///home/a\ud800.py") is None
    assert reason("file:///home/a\ud800.py", disabled_files=("*.py",)) == "file off"


def test_a_home_is_meant_by_its_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert reason(disabled_files=("~/job",)) == "file off"
    assert reason("file:///home/you/job/app.py", disabled_files=("~/job",)) is None


@pytest.mark.parametrize(
    ("uri", "folders", "off"),
    [
        ("file:///home/me/job/app.py", (), True),
        ("file:///home/me/job/app.py", ("file:///home/me",), True),
        ("file:///home/me/jobs/app.py", (), False),
        ("file:///home/me/play/app.py", ("file:///home/me/job", "file:///home/me/play"), False),
        ("file:///home/me/plays/app.py", ("file:///home/me/job", "file:///home/me/play"), True),
        ("file:///usr/lib/os.py", ("file:///home/me/job/",), True),
        ("file:///usr/lib/os.py", ("file:///home/me/job/sub",), True),
        ("file:///usr/lib/os.py", ("file:///home/me/play",), False),
        ("file:///usr/lib/os.py", (), False),
        ("file:///home/me/job", ("file:///home/me/job",), True),
        ("untitled:Untitled-1", ("file:///home/me/play", "file:///home/me/job"), True),
        ("untitled:Untitled-1", ("file:///home/me/play",), False),
        ("untitled:Untitled-1", ("untitled:x",), False),
    ],
)
def test_a_document_is_of_the_workspace_that_it_lies_in_or_of_all(
    uri: str, folders: tuple[str, ...], off: bool
) -> None:
    assert (reason(uri, folders=folders, disabled_files=("/home/me/job/",)) == "file off") is off


FOLDERS = st.lists(st.sampled_from(["client", "app", "A b", "[id]", "ä"]), min_size=1, max_size=3).map("/".join)
FRESH = "named like no folder.py"
FOLDER_PATTERNS = st.tuples(st.sampled_from(["/", "", "*/", "/*/", "**/"]), FOLDERS, st.sampled_from(["", "*"])).map(
    "".join
)


@given(FOLDER_PATTERNS, st.lists(FOLDERS, min_size=1, max_size=2))
def test_a_folder_means_its_files_and_what_lies_outside_of_all(pattern: str, workspaces: list[str]) -> None:
    """A document outside of all workspace folders is off where a file in one of them would be."""
    folders = tuple(Path("/", each).as_uri() for each in workspaces)
    files = [f"{folder}/{FRESH}" for folder in folders]
    for written in (pattern, f"{pattern}/", f"{pattern}/*", f"{pattern}/**", pattern.replace("/", "\\")):
        off = [reason(uri, disabled_files=(f"{pattern}/{FRESH}", f"{pattern}/*/{FRESH}")) for uri in files]
        assert [reason(uri, folders=folders, disabled_files=(written,)) for uri in files] == off
        assert [may_reach_disk(uri, (written,)) for uri in files] == [each is None for each in off]
        outside = reason("untitled:Untitled-1", folders=folders, disabled_files=(written,))
        assert outside == next(filter(None, off), None)


def test_links_are_judged_by_where_they_lead_too(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work")
    (tmp_path / ".env").write_text("x")
    (tmp_path / "harmless.py").symlink_to(tmp_path / ".env")
    assert reason((tmp_path / "harmless.py").as_uri()) == "secret file"
    through = (tmp_path / "link" / "a.py").as_uri()
    for named in ("work", "link"):
        assert reason(through, disabled_files=(str(tmp_path / named),)) == "file off"
        assert reason(through, disabled_files=(f"{named}/*",)) == "file off"


def test_a_document_is_judged_once_while_it_is_open_and_the_rules_are_the_same(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("x")
    link, documents = tmp_path / "a.py", OpenDocuments()
    for _ in range(2):
        documents.add(OpenDocument(Counters(), link.as_uri(), "python", "x"))
        assert documents.why_off(link.as_uri()) is None
        link.symlink_to(tmp_path / ".env")
        assert documents.why_off(link.as_uri()) is None, "links are followed once"
        documents.rules = Rules(Settings())
        assert documents.why_off(link.as_uri()) is not None, "other rules"
        documents.add(OpenDocument(Counters(), link.as_uri(), "python", "x"))
        assert documents.why_off(link.as_uri()) is not None, "opened again"
        link.unlink()


def test_what_is_off_is_not_read_for_others() -> None:
    assert Rules(Settings()).verdict(CODE, "python").may_be_read(9)
    for settings in (
        Settings(disabled_files=("*.py",)),
        Settings(disabled_languages=("python",)),
        Settings(enabled=False),
    ):
        assert not Rules(settings).verdict(CODE, "python").may_be_read(9)
    assert not Rules(Settings()).verdict(CODE, "python").may_be_read(MOST_CHARACTERS + 1)


NAMES = st.sampled_from(
    ["app.py", "secrets.py", ".env", "Token.txt", "id_rsa", "a b#c?%41.py", "ä.py", ".ssh", "vendor"]
)
PATTERNS = st.lists(st.sampled_from(["*.py", "/job/*", "vendor", "~", "a b*", "ä.py"]), max_size=2).map(tuple)


@given(
    st.lists(NAMES, min_size=1, max_size=3),
    PATTERNS,
    st.sampled_from(["/job", "/job/vendor", "/elsewhere"]),
    st.sampled_from(["python", "markdown", "rust"]),
)
def test_a_file_is_judged_by_its_path_as_by_its_uri(
    names: list[str], files: tuple[str, ...], folder: str, language: str
) -> None:
    path = "/job/" + "/".join(names)
    rules = Rules(Settings(disabled_files=files), [f"file://{folder}"])
    assert rules.verdict_of_file(path, language) == rules.verdict(Path(path).as_uri(), language)


@pytest.mark.parametrize("name", [".env", ".Renviron", "AuthKey_1.p8", "secrets.yaml", "%2Eenv", "C:\\me\\.ssh\\id"])
@pytest.mark.parametrize("scheme", ["", "untitled:", "http-client:", "vscode-vfs://github/me/job/", "git:/job/"])
def test_a_name_is_secret_in_any_scheme_with_a_path_or_without(scheme: str, name: str) -> None:
    assert reason(scheme + name) == "secret file"
    assert Rules(Settings()).verdict(scheme + name, "").secret


@pytest.mark.parametrize("path", ["c%3A%5Cme%5C.ssh%5Cid", "/c:/me/.ssh/id", "/C%3A\\me\\.aws\\config"])
def test_folders_are_secret_on_any_system(path: str) -> None:
    assert reason(f"file:///{path}") == "secret file"
