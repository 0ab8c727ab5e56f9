"""The files that administrators start a team's engine with have the flags that its page asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

DOCS = Path(__file__).parents[3] / "docs"
FLAGS = ("--block-size=16", "--enable-prompt-tokens-details")


def read(name: str) -> Any:
    return yaml.safe_load((DOCS / "team" / name).read_text("utf-8"))


def test_the_container_caches_prefixes_and_wants_a_key() -> None:
    vllm = read("compose.yaml")["services"]["vllm"]
    assert {*FLAGS, "--enable-prefix-caching"} <= {*vllm["command"]}
    assert vllm["environment"]["VLLM_API_KEY"].startswith("${TEAM_KEY:?"), "it does not start without"
    assert "ports" not in vllm, "only what brings TLS reaches it"


def test_the_chart_caches_prefixes_and_sends_a_person_to_the_same_engine() -> None:
    values = read("values.yaml")
    engine, [model] = values["servingEngineSpec"], values["servingEngineSpec"]["modelSpec"]
    assert {*FLAGS} <= {*model["vllmConfig"]["extraArgs"]} and model["vllmConfig"]["enablePrefixCaching"]
    assert engine["vllmApiKey"] == {"secretName": "team-key", "secretKey": "key"}
    router = values["routerSpec"]
    assert (router["routingLogic"], router["sessionKey"]) == ("session", "x-session-id")


@pytest.mark.parametrize("flag", ["--block-size 16", "--enable-prompt-tokens-details", "--enable-prefix-caching"])
def test_the_page_says_why(flag: str) -> None:
    assert f"| `{flag}` |" in (DOCS / "team.md").read_text("utf-8")
