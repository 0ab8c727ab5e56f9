"""Every report that is logged names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
FILE, TEST = re.compile(r"tests/[\w/.-]+\.py"), re.compile(r"::(\w+)")
HEAD = 2  # lines of a table before its rows


def test_a_report_names_its_tests() -> None:
    rows = [line for line in (ROOT / "docs/reports.md").read_text("utf-8").splitlines() if line.startswith("|")][
        HEAD:
    ]
    lacking = list[str]()
    for row in rows:
        files = [ROOT / name for name in FILE.findall(row)]
        texts = [file.read_text("utf-8") for file in files if file.is_file()]
        there = all(any(f"def {name}(" in text for text in texts) for name in TEST.findall(row))
        if not files or len(texts) < len(files) or not there:
            lacking.append(row)
    assert len(rows) > 100 and lacking == []
