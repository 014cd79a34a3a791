"""A real headless Chromium and two pages on loopback."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: It looks up nothing outside, and runs as root, too.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-port=0", "--no-proxy-server"),
)


@pytest.fixture(scope="session")
def chromium_program() -> str:
    """The program. Without one these tests are not run, and say so; CI makes that red."""
    named = os.environ.get("MASTRA_TEST_CHROMIUM")
    program = named or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        why = (
            "there is no Chromium on PATH; install one (Debian: apt-get install chromium), "
            "or name it in MASTRA_TEST_CHROMIUM"
        )
        if os.environ.get("MASTRA_REQUIRE_CHROMIUM") == "1":
            pytest.fail(why)
        pytest.skip(f"not run: {why}")
    return program


class Chromium:
    """One running browser."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    def open(self, url: str) -> str:
        """Open a page in a new tab; the tab's id."""
        answer: str = json.loads(self._ask("PUT", f"/json/new?{url}"))["id"]
        return answer

    def close_tab(self, tab: str) -> None:
        self._ask("GET", f"/json/close/{tab}")

    async def stop(self) -> None:
        """End it, at once if it doesn't want to."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(60):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()


@pytest.fixture
async def chromium(chromium_program: str, tmp_path: Path) -> AsyncIterator[Chromium]:
    """A browser that answers, with one empty tab; it ends with the test."""
    profile = tmp_path / "profile"
    process = await asyncio.create_subprocess_exec(
        *(chromium_program, *FLAGS, f"--user-data-dir={profile}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    browser = Chromium(process, 0)
    try:
        async with asyncio.timeout(90):
            # It says in a file where it listens, and in no other way.
            while not (port := _noted_port(profile)):
                assert process.returncode is None, "Chromium ended at once"
                await asyncio.sleep(0.05)
        yield Chromium(process, port)
    finally:
        await browser.stop()


def _noted_port(profile: Path) -> int | None:
    noted = profile / "DevToolsActivePort"
    words = noted.read_text().split() if noted.exists() else []
    return int(words[0]) if words else None


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/") or "home"
        page = f"<!doctype html><title>Page {name}</title><p>This is {name}.".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def pages() -> Iterator[str]:
    """Address of a server whose pages are titled after their path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
