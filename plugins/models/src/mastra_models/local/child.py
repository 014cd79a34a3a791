"""The process that holds the engine: JSON lines in, JSON lines out.

Run as ``python -m mastra_models.local.child``. In: ``{"id", "body"}`` asks, where ``body`` is
a chat completion of the OpenAI protocol, and ``{"cancel": id}`` gives up. Out: ``{"ready"}``
or ``{"failed"}`` once, then ``{"id", "chunk"}`` for each chunk and ``{"id", "end"}``. When
the input ends, so does the process, whatever it is doing: nobody is left to listen.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

__all__ = ("main",)


class _Answers:
    """The one writer to the parent; every line is written whole."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def write(self, **line: Any) -> None:
        text = json.dumps(line, separators=(",", ":"))
        with self._lock:
            self._out.write(f"{text}\n")
            self._out.flush()


class _Requests:
    """Requests that run, each in a thread of its own; the engine queues them itself."""

    def __init__(self, engine: Any, answers: _Answers) -> None:
        self._engine = engine
        self._answers = answers
        self._cancelled: dict[int, threading.Event] = {}

    def start(self, request_id: int, body: dict[str, Any]) -> None:
        cancelled = self._cancelled[request_id] = threading.Event()
        threading.Thread(target=self._run, args=(request_id, body, cancelled), daemon=True).start()

    def cancel(self, request_id: int) -> None:
        if cancelled := self._cancelled.get(request_id):
            cancelled.set()

    def _run(self, request_id: int, body: dict[str, Any], cancelled: threading.Event) -> None:
        def receive(chunk: dict[str, Any]) -> bool:
            if not cancelled.is_set():
                self._answers.write(id=request_id, chunk=chunk)
            return cancelled.is_set()

        try:
            self._ask(body, receive)
        except Exception as exc:  # noqa: BLE001 - the parent makes an error of it
            self._answers.write(id=request_id, chunk={"error": {"code": 500, "message": str(exc)}})
        finally:
            self._cancelled.pop(request_id, None)
            self._answers.write(id=request_id, end=True)

    def _ask(self, body: dict[str, Any], receive: Callable[[dict[str, Any]], bool]) -> None:
        refused = self._engine.handle_chat_completions(body, receive)
        if isinstance(refused, dict) and "error" in refused:
            receive(refused)


def _open_engine(options: argparse.Namespace) -> Any:
    # By name: the extension module tells type checkers nothing.
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.n_ctx = options.context
    params.n_parallel = 1
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.n_threads_http = 1
    # Its HTTP server listens on loopback in any case; only who knows this key gets in.
    params.api_keys = [options.key]
    params.ui = False
    params.verbosity = -1
    return xllamacpp.Server(params)


def main() -> None:
    """Serve the parent until it closes the input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    options.key = os.environ.pop("MASTRA_LOCAL_MODEL_KEY", "")
    # The engine may print; what it prints must not get between our lines.
    answers = _Answers(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    try:
        engine = _open_engine(options)
    except Exception as exc:  # noqa: BLE001 - the parent makes an error of it
        answers.write(failed=f"{type(exc).__name__}: {exc}")
        os._exit(1)
    requests = _Requests(engine, answers)
    answers.write(ready={"address": engine.listening_address})
    for line in sys.stdin:
        message = json.loads(line)
        if "cancel" in message:
            requests.cancel(message["cancel"])
        else:
            requests.start(message["id"], message["body"])
    # Not sys.exit: a thread inside the engine would have to be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
