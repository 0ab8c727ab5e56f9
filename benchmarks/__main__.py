"""`make bench [TRACE=file]`: every table, then one JSON object as the last line."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

from benchmarks import decoding, documents, policies, replays, store, through, typing
from benchmarks.session import demo_session
from editor_clients.headless import trace

PICTURE = Path(__file__).with_name("results") / "recomputed.png"


def main(path: Path | None = None) -> None:
    """Measure with the embedded model; policies are counted on a trace, by default the demo's own session.

    A trace that is given is drawn, and a slice of it replayed.
    """
    recorded, name = (trace.read(path), path.name) if path else (demo_session(), "the demo's session")
    results = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "policies": policies.measure(recorded, name, PICTURE if path else None),
        "documents": documents.measure(),
        "decoding": decoding.measure(),
        "typing": typing.measure(),
        "through": through.measure(),
        "store": store.measure(),
    }
    if path:
        results["replays"] = replays.measure(recorded, name)
    print(json.dumps(results))


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
