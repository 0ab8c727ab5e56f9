"""Texts of some languages have tokenizers of their own, which nobody reads before they are needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

DEFAULT = Tokenizer(EMBEDDED / "tokenizer.json")
TEXT = "function area(shape) {\n  return shape.width * shape.height;\n}\n"


def test_a_family_without_one_has_the_default() -> None:
    tokenizers = LanguageTokenizers(DEFAULT, lambda: {"javascript": SHIPPED["javascript"]})
    assert tokenizers.of("python") is tokenizers.of("rust") is DEFAULT
    own = tokenizers.of("javascript")
    assert own.digest != DEFAULT.digest and own is tokenizers.of("javascript")
    assert own.decode(own.encode_file(TEXT)) == TEXT
    assert (tokenizers.has_own("javascript"), tokenizers.has_own("python")) == (True, False)


def test_one_tokenizer_is_told_by_its_own_digest() -> None:
    for tokenizers in (LanguageTokenizers(DEFAULT), LanguageTokenizers(DEFAULT, dict)):
        assert tokenizers.digest == DEFAULT.digest
        assert tokenizers.of("javascript") is DEFAULT and tokenizers.is_narrow
    assert LanguageTokenizers(DEFAULT).is_one and not LanguageTokenizers(DEFAULT, dict).is_one


def test_the_digest_changes_with_a_family_and_with_the_file_of_one(tmp_path: Path) -> None:
    content = json.loads((EMBEDDED / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")

    def digest(own: Mapping[str, Path]) -> bytes:
        return LanguageTokenizers(DEFAULT, lambda: own).digest

    found = {DEFAULT.digest, digest({"go": tmp_path}), digest({"c": tmp_path}), digest({"go": EMBEDDED})}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content, indent=1), "utf-8")
    assert len({*found, digest({"go": tmp_path})}) == 5


@pytest.mark.parametrize(("entries", "is_narrow"), [(60_000, True), (65_537, False)])
def test_two_bytes_are_enough_for_small_tokenizers_only(entries: int, is_narrow: bool, tmp_path: Path) -> None:
    vocab = {f"token{n}": n for n in range(entries)}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}), "utf-8")
    assert LanguageTokenizers(DEFAULT, lambda: {"go": tmp_path}).is_narrow == is_narrow
