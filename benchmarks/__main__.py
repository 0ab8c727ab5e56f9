"""`make bench [TRACE=file]`: every table, then one JSON object as the last line."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

from benchmarks import counts, excerpts, start_up, store
from benchmarks.decoding import contexts, hf, kinds, larger, speed
from benchmarks.experts import places, simulated
from benchmarks.keystrokes import (
    busy_machine,
    day,
    first_token,
    large_workspace,
    policies,
    replays,
    round_trips,
    suggestions,
)
from benchmarks.keystrokes.demo_session import demo_session
from efim_lab.gate.replay import trace

PICTURE = Path(__file__).with_name("results") / "recomputed.png"


def main(path: Path | None = None) -> None:
    """Measure with the embedded model; policies are counted on a trace, by default the demo's own session.

    A trace that is given is drawn. A slice of it is replayed.
    """
    recorded, name = (trace.read(path), path.name) if path else (demo_session(), "the demo's session")
    replayed = replays.measure(part := replays.part_of(recorded), name)
    results = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "policies": policies.measure(recorded, name, PICTURE if path else None),
        "documents": round_trips.measure_text_mirror(),
        "replays": replayed,
        "keystrokes": first_token.measure(part, replayed["efim"]),
        "speed": speed.measure(),
        "larger": larger.measure(),
        "kinds": kinds.measure(),
        "experts": {"on_disk": places.measure(), "beside_gpu": simulated.measure()},
        "contexts": contexts.measure(),
        "foreign": hf.measure(),
        "typing": round_trips.measure(),
        "through": suggestions.measure(),
        "start": start_up.measure(),
        "counts": counts.measure(),
        "store": store.measure(),
        "excerpts": excerpts.measure(),
        "busy": busy_machine.measure(),
        "workspace": large_workspace.measure(),
        "day": day.measure(),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
