"""Suggestions in a language that the model does not know, from the file alone and from its repository."""

from __future__ import annotations

from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.unknown_language import measure

LINES = (
    "func (server *Server) handle(request Request) (Reply, error) {",
    "\tlistener, err := net.Listen(network, address)",
    "\tif deadline, ok := context.Deadline(); ok {",
    "\t\treturn nil, fmt.Errorf(tooLate, deadline)",
    "\tbuffered := bufio.NewReaderSize(connection, limit)",
    "\tfor scanner.Scan() {",
    "\t\tcounts[strings.ToLower(scanner.Text())]++",
    "\tdefer connection.Close()",
)
TEXT = "\n".join(LINES) + "\n"


def test_phrases_come_from_other_files_of_the_package_but_not_of_others(folder: Path) -> None:
    alike = [CodeDocument(path, TEXT.replace("\n", "\r\n")) for path in ("p/a.go", "p/b.go")]
    found = measure(folder, alike, "go", 16, lambda *_: None)
    alone, known = (
        found.arms[f"{name}, 50% sure or more: the server"] for name in ("phrases", "phrases of the repository")
    )
    assert known.shown.value > alone.shown.value + 0.5
    assert known.right and known.right.value > 0.8
    assert found.gain.value == known.gain.value - alone.gain.value > 0 and found.gain.low > 0
    apart = [CodeDocument(path, TEXT) for path in ("p/a.go", "q/b.go")]
    elsewhere = measure(folder, apart, "go", 16, lambda *_: None)
    assert elsewhere.gain.value == 0
    assert elsewhere.arms["phrases, 30% sure or more"] == found.arms["phrases, 30% sure or more"]
