"""Servers on loopback that speak as vLLM, llama.cpp's server and OpenAI's completions do, with a tiny model."""

from __future__ import annotations

import json
import re
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import log
from typing import Any

import numpy as np
import torch

from model_runtime.counts.lookup import NO_IDS
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.arena import DenseArena
from model_runtime.prompt.tokenizer import Tokenizer
from tests.waiting import eventually

BLOCK = 16
Event = dict[str, Any]
Chances = np.ndarray[Any, np.dtype[np.float64]]


class FakeServer(ThreadingHTTPServer):
    """A server with a model, all that it was `asked`, and what it is told to do wrong.

    While `go` is not set, it answers nothing; `came` is set once it was asked, `paused` once it waits in the midst of
    an answer, `left` once a client has gone there. It says `status` in place of an answer if that is not 200, or the
    `page`.
    """

    daemon_threads = True
    kind = owner = ""

    def __init__(self, decoder: AnyDecoder, tokenizer: Tokenizer, port: int = 0) -> None:
        self.tokenizer, self.model, self.context = tokenizer, "tiny", 0
        self.model_path = ""  # llama.cpp's file
        self.asked, self.keys, self.sessions = list[tuple[str, Event]](), list[str](), list[str]()
        self.go, self.came, self.left = threading.Event(), threading.Event(), threading.Event()
        self.paused = threading.Event()
        self.go.set()
        self.status, self.page = 200, b""
        self._open = list[socket.socket]()
        self.pause_after: int | None = None  # tokens after which `go` is waited for again
        self._decoder, self._arena = decoder, DenseArena(decoder.config, 600)
        self._ids, self._computing = NO_IDS, threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def bodies(self) -> list[Event]:
        """What was asked of completions."""
        return [body for path, body in self.asked if "completion" in path]

    def get_request(self) -> tuple[socket.socket, Any]:
        """As servers do, which remember the connection."""
        connection, address = super().get_request()
        self._open.append(connection)
        return connection, address

    def close_connections(self) -> None:
        """Close all connections, as a server does that ends."""
        for each in self._open:
            with suppress(OSError):  # the client was first
                each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients may leave."""

    def server_bind(self) -> None:
        """As servers do that are started again at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        super().server_bind()

    def chances(self, ids: Ids) -> tuple[Chances, int]:
        """The chances of the next token, and how many tokens were not computed."""
        with self._computing:
            kept = min(common_prefix(self._ids, ids), len(ids) - 1)
            self._arena.truncate(kept)
            logits = torch.as_tensor(self._decoder.forward(ids[kept:], self._arena))[0]
            self._ids = ids
            return torch.softmax(logits[: self.tokenizer.vocab].double(), -1).numpy(), kept

    def decode(self, ids: Ids, limit: int, allowed: Sequence[int] | None) -> Iterator[tuple[int, Chances, int]]:
        """Greedy tokens, with the chances of all and how many of the prompt's tokens were held."""
        reused = None
        for _ in range(limit):
            chances, kept = self.chances(ids)
            reused = kept if reused is None else reused
            token = int(chances.argmax()) if allowed is None else max(allowed, key=lambda each: chances[each])
            yield token, chances, reused
            ids = np.append(ids, np.int32(token))

    def get(self, path: str) -> Event | str:
        """Answer what is asked without a body."""
        if path == "/v1/models":
            return {"object": "list", "data": [{"id": self.model, "object": "model", "owned_by": self.owner}]}
        raise FileNotFoundError

    def post(self, path: str, body: Event) -> Event:
        """Answer what is asked with a body, but for completions."""
        raise FileNotFoundError

    def events(self, body: Event) -> Iterator[Event]:
        """The stream of a completion."""
        raise NotImplementedError


class FakeVllm(FakeServer):
    """vLLM's /v1/completions, /v1/models, /tokenize and /metrics."""

    kind, owner = "vllm", "vllm"

    def get(self, path: str) -> Event | str:
        if path == "/metrics":
            return 'vllm:cache_config_info{block_size="128",cache_dtype="auto"} 1.0\n'
        found: Any = super().get(path)
        found["data"][0]["max_model_len"] = self.context or 600
        return found

    def post(self, path: str, body: Event) -> Event:
        if path != "/tokenize":
            raise FileNotFoundError
        tokens = self.tokenizer.encode(body["prompt"]).tolist()
        return {"count": len(tokens), "tokens": tokens, "max_model_len": 600}

    def events(self, body: Event) -> Iterator[Event]:
        assert body["model"] == self.model and body["temperature"] == 0 and body["max_tokens"] > 0
        ids, spelled, said, reused, reason = np.array(body["prompt"], dtype=np.int32), b"", "", 0, "length"
        before = b"".join(self.tokenizer.token_bytes[token] for token in body["prompt"])
        again = "said again\n" * (before.decode("utf-8", "ignore").encode() != before)  # within a character
        for token, chances, kept in self.decode(ids, body["max_tokens"], body.get("allowed_token_ids")):
            reused = kept // BLOCK * BLOCK
            spelled += self.tokenizer.token_bytes[token]
            text = again + spelled.decode("utf-8", "ignore")
            reason = "stop" if token in body["stop_token_ids"] else None
            if "stop" in body and "\n" in text:
                reason, text = "stop", text[: text.index("\n") + 1]
            top = np.argsort(-chances, kind="stable")[: body["logprobs"]].tolist()
            yield self._event(
                {
                    "index": 0,
                    "text": text[len(said) :],
                    "token_ids": [token],
                    "finish_reason": reason,
                    "logprobs": {
                        "tokens": [f"token_id:{token}"],
                        "token_logprobs": [log(chances[token])],
                        "top_logprobs": [{f"token_id:{each}": log(chances[each]) for each in {*top, token}}],
                    },
                }
            )
            said = text
            if reason:
                break
        usage = {"prompt_tokens": len(ids), "prompt_tokens_details": {"cached_tokens": reused}}
        yield {"id": "cmpl-1", "model": self.model, "choices": [], "usage": usage}

    def _event(self, choice: Event) -> Event:
        return {"id": "cmpl-1", "object": "text_completion", "model": self.model, "choices": [choice], "usage": None}


class FakeLlamaCpp(FakeServer):
    """llama.cpp's /completion, /v1/models, /props and /tokenize; a token that ends in a character is not sent."""

    kind, owner, slots = "llama.cpp", "llamacpp", 2

    def get(self, path: str) -> Event | str:
        if path == "/props":
            settings = {"n_ctx": self.context or 600}
            about = {"default_generation_settings": settings, "total_slots": self.slots}
            return {**about, "model_path": self.model_path}
        return super().get(path)

    def post(self, path: str, body: Event) -> Event:
        if path != "/tokenize":
            raise FileNotFoundError
        return {"tokens": self.tokenizer.encode(body["content"]).tolist()}

    def events(self, body: Event) -> Iterator[Event]:
        assert 0 <= body["id_slot"] < self.slots and body["temperature"] == 0
        ids, spelled, said, reason = np.array(body["prompt"], dtype=np.int32), b"", "", "limit"
        timings = {"prompt_n": len(ids), "cache_n": 0}
        allowed = [token for token, _ in body.get("logit_bias", ())] or None
        if not body["n_predict"]:
            _, kept = self.chances(ids)
            timings = {"prompt_n": len(ids) - kept, "cache_n": kept}
        for token, chances, kept in self.decode(ids, body["n_predict"], allowed):
            timings = {"prompt_n": len(ids) - kept, "cache_n": kept}
            if token in self.tokenizer.special.values():
                reason = "eos"
                break
            spelled += self.tokenizer.token_bytes[token]
            text = spelled.decode("utf-8", "ignore")
            if text.encode() != spelled:
                continue
            top = np.argsort(-chances, kind="stable")[: body["n_probs"]].tolist()
            listed = [{"id": each, "logprob": log(chances[each])} for each in top]
            own = {"id": token, "logprob": log(chances[token]), "top_logprobs": listed}
            yield {
                "content": text[len(said) :],
                "tokens": [token],
                "stop": False,
                "completion_probabilities": [own],
                "timings": timings,
            }
            said = text
        yield {"content": "", "tokens": [], "stop": True, "stop_type": reason, "timings": timings}


class FakeOpenAi(FakeServer):
    """OpenAI's /v1/completions by text, and /v1/models."""

    kind, owner = "openai", "somebody"

    def events(self, body: Event) -> Iterator[Event]:
        ids = self._encode(body["prompt"])
        allowed = [int(token) for token in body.get("logit_bias", ())] or None
        for token, chances, _ in self.decode(ids, body["max_tokens"], allowed):
            ends = token in self.tokenizer.special.values()
            top = np.argsort(-chances, kind="stable")[: body["logprobs"]].tolist()
            text = "" if ends else self._text(token)
            chances_of = {self._text(each): log(chances[each]) for each in top}
            logprobs = {"tokens": [text], "token_logprobs": [log(chances[token])], "top_logprobs": [chances_of]}
            reason = "stop" if ends else None
            yield {"choices": [{"text": text, "logprobs": None if ends else logprobs, "finish_reason": reason}]}
            if ends:
                return

    def _text(self, token: int) -> str:
        spelled = self.tokenizer.token_bytes[token]
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return f"bytes:{spelled!r}"

    def _encode(self, text: str) -> Ids:
        """As a server does, which reads the names of special tokens as these."""
        special = self.tokenizer.special
        names = "|".join(map(re.escape, special))
        pieces = re.split(f"({names})", text)
        parts = [[special[each]] if each in special else self.tokenizer.encode(each).tolist() for each in pieces]
        return np.array([token for part in parts for token in part], dtype=np.int32)


FAKES: tuple[type[FakeServer], ...] = (FakeVllm, FakeLlamaCpp, FakeOpenAi)


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """Serve on a thread until the end; whoever still waits goes on then."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go.set()
        server.shutdown()
        server.close_connections()
        server.server_close()
        thread.join()


class _Gone(Exception):
    """The client has closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and its body are two packets, of which the second would wait 40 ms
    server: FakeServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:  # noqa: N802
        self._answer({})

    def do_POST(self) -> None:  # noqa: N802
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: Event) -> None:
        server = self.server
        server.asked.append((self.path, body))
        server.keys.append(self.headers.get("authorization", ""))
        server.sessions.append(self.headers["x-session-id"])
        server.came.set()
        try:
            self._wait()
            if server.status != 200 or server.page:
                self._send(server.status, server.page)
            elif "completion" in self.path:
                self._stream(body)
            else:
                found = server.post(self.path, body) if self.command == "POST" else server.get(self.path)
                self._send(200, (found if isinstance(found, str) else json.dumps(found)).encode())
        except FileNotFoundError:
            self._send(404, b"{}")
        except (_Gone, OSError):
            self.close_connection = True
            server.left.set()

    def _wait(self) -> None:
        """Wait until the server may answer; raise _Gone if the client leaves meanwhile."""
        eventually(lambda: self.server.go.is_set() or self._has_left(), "the server may not answer")
        if not self.server.go.is_set():
            raise _Gone

    def _has_left(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, body: Event) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(self.server.events(body)):
            if number == self.server.pause_after:
                self.server.go.clear()
                self.server.paused.set()
                self._wait()
            self._chunk(f"data: {json.dumps(event)}\n\n".encode())
        if self.path.startswith("/v1/"):
            self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()
