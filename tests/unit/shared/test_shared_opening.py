"""How the shared tier is opened: its key, its address, its packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kv_store.block import BLOCK_TOKENS
from kv_store.shared.opening import open_shared, open_shelf, read_key
from kv_store.shared.shelf import ShelfError
from kv_store.tier import StoreContext
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvLayout
from tests.unit.shared_shelves import KEY


def context(reported: list[str]) -> StoreContext:
    codec = KvCodec(KvLayout.keys_and_values(2, 1, 32), BLOCK_TOKENS, None)
    return StoreContext(b"a model", codec, None, reported.append)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(f"{KEY}\n", "utf-8")
    return str(tmp_path / "key")


def test_a_key_is_in_a_file_or_a_variable(key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", f" {KEY} ")
    assert read_key(key_file, "") == read_key("", "TEAM_KEY") == KEY


@pytest.mark.parametrize(
    ("file", "variable", "said"),
    [
        ("", "", "openssl rand -hex 32"),
        ("/nothing/here", "", "cannot be read"),
        ("", "NO_SUCH_KEY", "openssl rand -hex 32"),
        ("", "SHORT_KEY", "less than 32 characters"),
    ],
)
def test_without_a_key_there_is_no_tier(file: str, variable: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT_KEY", "secret")
    reported = list[str]()
    options = {"url": "redis://host", "key_file": file, "key_variable": variable, "form": Form.RAW}
    assert open_shared(context(reported), options) is None
    assert len(reported) == 1 and said in reported[0] and "secret" not in reported[0]


@pytest.mark.parametrize(
    ("url", "package"),
    [("redis://host", "valkey"), ("s3://bucket", "obstore"), ("redis://host", "cryptography")],
)
def test_a_missing_package_is_named(key_file: str, url: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith((f"{package}.", "kv_store.shared."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    from kv_store.shared.opening import open_shared

    reported = list[str]()
    assert open_shared(context(reported), {"url": url, "key_file": key_file, "form": Form.RAW}) is None
    assert len(reported) == 1 and f"the Python package {package};" in reported[0]


@pytest.mark.parametrize(
    "url", ["redis://host/?db=x", "redis://host:1/?no_such_option=1", "s3://", "gopher://host/x"]
)
def test_an_address_that_cannot_be_one_is_told_without_it(key_file: str, url: str) -> None:
    with pytest.raises(ShelfError, match="'url'") as told:
        open_shelf({"url": url, "key_file": key_file}).shelf.get_many(["a"])
    assert url not in str(told.value)


def test_tls_checks_whose_certificate_it_is(key_file: str) -> None:
    shelf = open_shelf({"url": "rediss://user:password@host:6380/2?ssl_ca_certs=/ca.pem", "key_file": key_file}).shelf
    arguments = shelf._client.connection_pool.connection_kwargs  # type: ignore[attr-defined]
    assert arguments["ssl_check_hostname"] is True and arguments["ssl_ca_certs"] == "/ca.pem"
    assert (arguments["username"], arguments["password"], arguments["db"]) == ("user", "password", 2)
