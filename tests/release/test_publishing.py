"""What registries ask of the files that are published, and that all of these name one project."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from functools import cache
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import yaml

from ..editors.fetching.part import ROOT
from .test_release import PROJECT, SDIST, SEPARATE, VERSION, VSIX, WHEELS, released

MASON, LSPCONFIG = ROOT / "editor_clients" / "mason", ROOT / "editor_clients" / "nvim-lspconfig" / "lsp"
ADDRESS, ISSUES = PROJECT["urls"]["Homepage"], PROJECT["urls"]["Issues"]
LICENCE = PROJECT["license"]
SMALLEST_ICON = 128  # pixels of a side; the Marketplace takes no less
CATEGORIES = {"AI", "Programming Languages", "Machine Learning"}  # of the Marketplace's, those that fit
REQUIRED_BY_MASON = {"name", "description", "homepage", "licenses", "languages", "categories", "source"}
VSIX_SCHEMA = "{http://schemas.microsoft.com/developer/vsx-schema/2011}"


@cache
def extension() -> dict[str, bytes]:
    with ZipFile(released(VSIX)) as archive:
        return {name: archive.read(name) for name in archive.namelist() if "/server/" not in name}


def manifest() -> dict[str, Any]:
    return json.loads(extension()["extension/package.json"])


def test_an_index_of_packages_takes_the_source_and_all_wheels() -> None:
    files = map(released, (SDIST, *WHEELS, *SEPARATE.values()))
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("PASSED") == 1 + len(WHEELS) + len(SEPARATE)


def test_the_extension_says_what_a_marketplace_shows() -> None:
    about = manifest()
    assert about["publisher"] and about["displayName"] and len(about["description"]) <= 200
    assert set(about["categories"]) <= CATEGORIES and 0 < len(about["keywords"]) <= 30
    assert re.fullmatch("#[0-9a-f]{6}", about["galleryBanner"]["color"]) and about["galleryBanner"]["theme"] == "dark"
    assert about["pricing"] == "Free"
    assert about["preview"] == VERSION.startswith("0.")
    assert (about["license"], about["homepage"], about["bugs"]["url"]) == (LICENCE, ADDRESS, ISSUES)
    assert about["repository"] == {"type": "git", "url": ADDRESS}
    assert extension()["extension/LICENSE.txt"] == (ROOT / "LICENSE").read_bytes()


def test_the_package_of_the_extension_shows_its_icon_and_links() -> None:
    about = ElementTree.fromstring(extension()["extension.vsixmanifest"])
    properties = {each.get("Id", ""): each.get("Value") for each in about.iter(f"{VSIX_SCHEMA}Property")}
    links = "Microsoft.VisualStudio.Services.Links."
    assert (properties[f"{links}Source"], properties[f"{links}Support"]) == (ADDRESS, ISSUES)
    [icon] = [each.text or "" for each in about.iter(f"{VSIX_SCHEMA}Icon")]
    assert icon == f"extension/{manifest()['icon']}"
    content = extension()[icon]
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", content[16:24])) >= SMALLEST_ICON


def test_a_page_of_the_extension_has_no_picture_that_a_marketplace_refuses() -> None:
    """It takes no SVG, and only pictures that are in the package."""
    pictures = re.findall(r"!\[[^]]*\]\((\S+)\)", extension()["extension/readme.md"].decode())
    assert pictures
    assert [each for each in pictures if f"extension/{each}" not in extension() or each.endswith(".svg")] == []


def test_the_file_for_mason_has_the_fields_that_its_schema_asks_for() -> None:
    """Its schema has no licence to be copied by; the file passed it as it was in June 2026."""
    about = yaml.safe_load((MASON / "package.yaml").read_text("utf-8"))
    assert set(about) == REQUIRED_BY_MASON | {"bin", "neovim"}
    assert (about["name"], about["homepage"], about["licenses"]) == (PROJECT["name"], ADDRESS, [LICENCE])
    assert (about["languages"], about["categories"]) == ([], ["LSP"])
    assert about["source"] == {"id": f"pkg:pypi/{PROJECT['name']}@{VERSION}"}
    assert about["bin"] == {program: f"pypi:{program}" for program in PROJECT["scripts"]}
    [configuration] = LSPCONFIG.iterdir()
    assert about["neovim"] == {"lspconfig": configuration.stem}


def test_the_file_for_lspconfig_is_as_that_repository_checks() -> None:
    [configuration] = LSPCONFIG.iterdir()
    lines = configuration.read_text("utf-8").splitlines()
    assert lines[:3] == ["---@brief", "---", f"--- {ADDRESS}"]
    assert "---@type vim.lsp.Config" in lines
    assert "filetypes" not in "\n".join(lines), "the server takes all languages, and says itself which it does not"
