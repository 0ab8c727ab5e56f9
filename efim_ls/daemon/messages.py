"""Reads messages from streams. Imports little, because relays are small processes."""

from __future__ import annotations

import json
import os
from typing import Any, Protocol

from efim_ls.lsp.wire import LONGEST_HEADER, MessageHeader


class MessageSource(Protocol):
    """Bytes of messages."""

    def readline(self, most: int, /) -> bytes:
        """Read a line, or the beginning of a line that is too long."""
        ...

    def read(self, size: int, /) -> bytes:
        """Read a body; it is shorter where the stream ends."""
        ...


class UnbufferedInput:
    """Reads stdin without taking a byte more than is asked for."""

    def readline(self, most: int) -> bytes:
        """Read a line, or the beginning of a line that is too long."""
        line = bytearray()
        while len(line) < most and (byte := os.read(0, 1)):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)

    def read(self, size: int) -> bytes:
        """Read a body; it is shorter where the stream ends."""
        body = bytearray()
        while len(body) < size and (part := os.read(0, size - len(body))):
            body += part
        return bytes(body)


def read_message(source: MessageSource) -> bytes | None:
    """Read the body of the next message; None at the end. Raises UnreadableHeader."""
    header = MessageHeader()
    while line := source.readline(LONGEST_HEADER):
        if header.feed(line):
            body = source.read(header.length or 0)
            return body if len(body) == header.length else None
    return None


def relay_message(body: bytes) -> tuple[str, Any]:
    """Return the method and parameters of a message that may be for the relay itself."""
    message: dict[str, Any] = json.loads(body) if body.find(b'"efim/', 0, 100) >= 0 else {}
    return message.get("method", ""), message.get("params")
