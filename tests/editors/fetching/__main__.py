"""`python -m tests.editors.fetching`: fetch each part that is not there yet, and record what is missing and why."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from . import neovim, programs, servers, vscode
from .part import RECORD, Missing, Part, cache

PARTS = (*programs.PARTS, *servers.PARTS, *vscode.PARTS, *neovim.PARTS)


def main() -> None:
    with ThreadPoolExecutor(len(PARTS)) as pool:
        entries = dict(pool.map(entry, PARTS))
    RECORD.parent.mkdir(exist_ok=True)
    written = RECORD.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(entries, indent=2), "utf-8")
    written.replace(RECORD)


def entry(part: Part) -> tuple[str, dict[str, str]]:
    """Return the part's name, and its program's path or what is missing; raises nothing."""
    known, began = (cache() / part.key / part.program).exists(), time.monotonic()
    try:
        program = part.obtain()
    except (Missing, OSError) as reason:
        print(f"{part.key}: left out: {reason}", flush=True)
        return part.key, {"missing": f"{part.key}: {reason}"}
    if not known:
        print(f"{part.key}: fetched in {time.monotonic() - began:.0f} s", flush=True)
    return part.key, {"program": str(program)}


if __name__ == "__main__":
    main()
