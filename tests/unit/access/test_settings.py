from __future__ import annotations

import itertools
import math
from dataclasses import asdict, fields, replace

import pytest

from efim_ls.setting_objects import SharedTierOptions
from efim_ls.settings import OF_SERVER, Settings, parse
from model_runtime.remote.setting import RemoteOptions

MOST_SETTINGS = 26


def test_nothing_set_gives_the_defaults() -> None:
    assert parse(None) == parse({}) == parse() == (Settings(), [])


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"efim-ls": s}, lambda s: {"efim_ls": s}])
def test_settings_are_taken_bare_or_under_our_name(wrap) -> None:
    settings, problems = parse(wrap({"model": "/m", "enabled": False, "threads": 3, "weights": "fp16"}))
    assert settings == Settings(model="/m", enabled=False, threads=3, weights="fp16")
    assert problems == []


def test_under_our_name_the_rest_of_the_object_is_others() -> None:
    assert parse({"efim-ls": {"max_lines": 3}, "pylsp": {"x": 1}}) == (Settings(max_lines=3), [])


def test_later_layers_win_and_what_they_leave_out_stays() -> None:
    settings, problems = parse({"max_lines": 3, "threads": 2}, {"efim-ls": {"threads": 4}}, None)
    assert (settings, problems) == (Settings(max_lines=3, threads=4), [])


def test_an_unknown_setting_is_named_with_those_that_exist() -> None:
    settings, [problem] = parse({"modle": "x", "max_lines": 2})
    assert settings == Settings(max_lines=2)
    assert "'modle'" in problem
    assert all(field.name in problem for field in fields(Settings))


def test_a_user_has_few_settings_to_read_about() -> None:
    names = [field.name for field in fields(Settings)]
    assert len(names) <= MOST_SETTINGS, names


@pytest.mark.parametrize(("lines", "tokens"), [(1, 64), (12, 64), (13, 65), (40, 200)])
def test_a_suggestion_has_room_for_its_lines(lines: int, tokens: int) -> None:
    assert Settings(max_lines=lines).max_new_tokens == tokens


@pytest.mark.parametrize(("head", "tail"), [(1, 1), (400, 100), (1536, 384)])
def test_a_quarter_as_much_is_read_after_the_cursor(head: int, tail: int) -> None:
    assert Settings(head_tokens=head).tail_tokens == tail


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("model", 5, "a text"),
        ("model", None, "a text"),
        ("enabled", 1, "true or false"),
        ("enabled", "yes", "true or false"),
        ("other_files", "on", "'auto' or 'text' or 'phrases' or 'off'"),
        ("max_lines", 0, "a positive whole number"),
        ("max_lines", -1, "a positive whole number"),
        ("head_tokens", 1.5, "a positive whole number"),
        ("head_tokens", "384", "a positive whole number"),
        ("threads", True, "a positive whole number"),
        ("disk_mib", [], "a positive whole number"),
        ("memory_mib", 31, "a whole number, 32 or more"),
        ("memory_mib", "1 GiB", "a whole number, 32 or more"),
        ("prefetch_seconds_per_minute", -1, "a whole number, 0 or more"),
        ("prefetch_seconds_per_minute", 0.5, "a whole number, 0 or more"),
        ("prefetch_seconds_per_minute", False, "a whole number, 0 or more"),
        ("weights", "int3", "'auto' or 'fp32' or 'fp16'"),
        ("weights", ["auto"], "'auto' or 'fp32' or 'fp16'"),
        ("menu", True, "'auto' or 'always' or 'never'"),
        ("approximations", "int8_on_disk", "a list of 'int8_on_disk', 'moved_text', 'moved_text_carefully'"),
        ("approximations", ["int4_on_disk"], "a list of 'int8_on_disk'"),
        ("approximations", [["int8_on_disk"]], "a list of 'int8_on_disk'"),
        ("show_after_ms", -1, "a whole number, 0 or more up to 60000"),
        ("show_after_ms", 60001, "a whole number, 0 or more up to 60000"),
        ("suggestions", -0.1, "'on request' or a number from 0 to 1"),
        ("suggestions", 2, "'on request' or a number from 0 to 1"),
        ("suggestions", math.nan, "'on request' or a number from 0 to 1"),
        ("suggestions", True, "'on request' or a number from 0 to 1"),
        ("suggestions", "0.5", "'on request' or a number from 0 to 1"),
        ("disabled_languages", {"markdown": True}, "a list of texts"),
        ("private_files", "*.sql", "a list of texts"),
        ("private_files", ["*.sql", 5], "a list of texts"),
        ("disabled_files", ["~\0x"], "a list of texts"),
        ("cache_folder", None, "a text"),
        ("template", "<fim>", "an object of texts and lists of texts"),
        ("template", {"prefix": 5}, "an object of texts and lists of texts"),
        ("template", {"prefix": "<a>", "end": ["<b>", None]}, "an object of texts and lists of texts"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_expected_and_the_default_stays(name, value, expected) -> None:
    settings, [problem] = parse({name: value, "max_lines": 7} if name != "max_lines" else {name: value})
    assert getattr(settings, name) == getattr(Settings(), name)
    assert repr(name) in problem
    assert expected in problem
    assert name == "max_lines" or settings.max_lines == 7


@pytest.mark.parametrize("name", ["private_files", "disabled_languages", "disabled_files"])
def test_a_list_is_taken_over_in_place_of_the_default(name) -> None:
    assert parse({name: ["*.sql", "x"]}) == (replace(Settings(), **{name: ("*.sql", "x")}), [])
    assert parse({name: []}) == (replace(Settings(), **{name: ()}), [])


def test_an_object_of_texts_is_taken_over_and_cannot_be_changed() -> None:
    settings, problems = parse({"template": {"prefix": "<a>", "end": ["<b>", "<c>"]}})
    assert problems == []
    assert settings.template == (("prefix", "<a>"), ("end", ("<b>", "<c>")))
    assert hash(settings) != hash(Settings())


@pytest.mark.parametrize("value", [0, 0.25, 1, 1.0])
def test_a_probability_may_be_whole(value) -> None:
    assert parse({"suggestions": value}) == (Settings(suggestions=value), [])


@pytest.mark.parametrize("value", ["auto", 1, 64])
def test_the_number_of_threads_may_be_left_to_the_server(value) -> None:
    assert parse({"threads": value}) == (Settings(threads=value), [])


@pytest.mark.parametrize("value", ["more", "balanced", "sure", "on request"])
def test_how_many_suggestions_there_are_may_be_said_in_words(value) -> None:
    assert parse({"suggestions": value}) == (Settings(suggestions=value), [])


@pytest.mark.parametrize("layer", [[1], "fast", 5, {"efim-ls": "fast"}])
def test_what_is_no_object_is_a_problem(layer) -> None:
    settings, [problem] = parse(layer)
    assert settings == Settings()
    assert "expected an object" in problem


@pytest.mark.parametrize("layer", [{"efim-ls": None}, {"efim-ls": {}}])
def test_an_empty_section_is_none(layer) -> None:
    assert parse(layer) == (Settings(), [])


@pytest.mark.parametrize(("name", "least"), [("memory_mib", 32), ("prefetch_seconds_per_minute", 0)])
def test_a_number_may_be_as_small_as_it_makes_sense(name, least) -> None:
    assert parse({name: least}) == (replace(Settings(), **{name: least}), [])


def test_only_what_a_model_depends_on_tells_models_apart() -> None:
    same = {"enabled": False, "menu": "never", "prefetch_seconds_per_minute": 9, "show_after_ms": 5}
    same |= {"shared": False, "next_edit": False}
    same |= {"suggestions": 0.5, "disabled_languages": (), "disabled_files": ("x",)}
    assert set(same) == set(OF_SERVER)
    assert Settings(**same).of_model == Settings().of_model
    changes = {"model": "/m", "max_lines": 9, "head_tokens": 9}
    changes |= {"template": (("prefix", "<a>"),), "model_languages": ("go",)}
    changes |= {"threads": 9, "device": "cpu", "weights": "fp32", "memory_mib": 99}
    changes |= {"approximations": ("int8_on_disk",), "disk_mib": 9}
    changes |= {"other_files": "text", "engine": RemoteOptions(url="http://host")}
    changes |= {"shared_tier": SharedTierOptions(url="redis://host")}
    changes |= {"persist": False, "cache_folder": "/c", "private_files": ("*.sql",)}
    for name, value in changes.items():
        assert replace(Settings(), **{name: value}).of_model != Settings().of_model, name
    assert len(changes) + len(same) == len(fields(Settings))


@pytest.mark.parametrize(("model", "alike"), [("", {"auto", "phrases", "off"}), ("/m", {"phrases", "off"})])
def test_a_model_is_loaded_again_only_if_its_prompts_may_show_other_text(model: str, alike: set[str]) -> None:
    """The embedded models are too small to gain by it: by default they show none."""
    ways = [replace(Settings(model=model), other_files=each) for each in ("auto", "text", "phrases", "off")]
    for one, other in itertools.product(ways, repeat=2):
        is_same = one == other or {one.other_files, other.other_files} <= alike
        assert (one.of_model == other.of_model) is is_same, (one.other_files, other.other_files)


@pytest.mark.parametrize("folder", ["\ud800", "/cache/\ud800", "a\0b", "relative/x", "./x", "..", "~nobody/x", "~x"])
def test_a_cache_folder_that_is_no_absolute_path_is_refused(folder: str) -> None:
    settings, [problem] = parse({"cache_folder": folder})
    assert settings == Settings()
    assert "'cache_folder'" in problem and problem.encode()


@pytest.mark.parametrize("folder", ["", "/cache", "~/cache", "~", "/caché \U0001f600"])
def test_a_cache_folder_that_can_be_one_is_taken(folder: str) -> None:
    settings, problems = parse({"cache_folder": folder})
    assert problems == [] and settings.cache_folder == folder


@pytest.mark.parametrize(
    "given",
    [
        {"url": "http://host:8000"},
        {"url": "https://host/v1", "kind": "vllm", "model": "m", "key_file": "~/k", "wait_seconds": 0.5},
        {"url": "http://host", "key_variable": "K", "private": True, "cache_salt": "s", "priority": -1},
        {"alone": True},
        {"wait_seconds": 2},
        {},
    ],
)
def test_an_engine_is_described(given: dict[str, object]) -> None:
    parsed, problems = parse({"engine": given})
    assert problems == [] and {**asdict(parsed.engine), **given} == asdict(parsed.engine)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("http://host", "expected an object"),
        ({"kind": "vllm"}, "expected 'url'"),
        ({"alone": True, "kind": "vllm"}, "expected 'url'"),
        ({"url": "http://host", "alone": True}, "'alone' is for a model that is computed here"),
        ({"url": "host:8000"}, "as 'url'"),
        ({"url": "http://user:secret@host"}, "without a key in it"),
        ({"url": "http://host?key=secret"}, "without a key in it"),
        ({"url": "http://host", "kind": "tgi"}, "'vllm' or 'llama.cpp' or 'openai'"),
        ({"url": "http://host", "wait_seconds": True}, "a number from 0 to 10"),
        ({"url": "http://host", "private": "yes"}, "true or false"),
        ({"url": "http://host", "key": "secret"}, "unknown name 'key'"),
    ],
)
def test_a_wrong_description_of_an_engine_is_told_without_a_key(given: object, said: str) -> None:
    parsed, [problem] = parse({"engine": given})
    assert said in problem and "secret" not in problem and not parsed.engine.url


@pytest.mark.parametrize(
    "given",
    [
        {"url": "valkeys://user:password@host:6380/2?ssl_ca_certs=/ca.pem", "key_file": "~/k", "encrypt": True},
        {"url": "redis://host", "key_variable": "K", "salt": "2026", "patience_ms": 0},
        {"url": "s3://bucket/folder", "key_file": "k", "bytes": 10**12},
        {"url": "file:///a%20folder", "key_file": "k"},
        {"url": "unix:///run/valkey.sock", "key_file": "k"},
        {},
    ],
)
def test_a_shared_tier_is_described(given: dict[str, object]) -> None:
    parsed, problems = parse({"shared_tier": given})
    assert problems == [] and {**asdict(parsed.shared_tier), **given} == asdict(parsed.shared_tier)
    assert "password" not in repr(parsed)


def test_no_shared_tier_is_null() -> None:
    assert parse({"shared_tier": None}) == (Settings(), [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("redis://host", "expected an object"),
        ({"key_file": "k"}, "expected 'url'"),
        ({"url": "host:6379"}, "as 'url'"),
        ({"url": "http://host:6379"}, "as 'url'"),
        ({"url": "file://host/folder"}, "as 'url'"),
        ({"url": "file:folder"}, "as 'url'"),
        ({"url": "redis://secret@:0"}, "as 'url'"),
        ({"url": "redis://host", "patience_ms": 5000}, "a whole number from 0 to 2000"),
        ({"url": "redis://host", "bytes": True}, "a whole number from 0 to"),
        ({"url": "redis://host", "encrypt": "yes"}, "true or false"),
        ({"url": "redis://host", "salt": "a\ud800"}, "a text"),
        ({"url": "redis://host", "key": "secret"}, "unknown name 'key'"),
    ],
)
def test_a_wrong_description_of_a_shared_tier_is_told_without_a_key(given: object, said: str) -> None:
    parsed, [problem] = parse({"shared_tier": given})
    assert said in problem and "secret" not in problem and not parsed.shared_tier.url
