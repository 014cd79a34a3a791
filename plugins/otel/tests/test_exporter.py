"""Providers of the process, of an endpoint, and none."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mastra_core import Agent, Mastra
from mastra_core.base.telemetry import NOOP_SPAN, Span, TraceLink, Tracer
from mastra_core.contracts.exporter import SpanExporter
from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_otel import OtelExporter, OtelOptions, OtelTracer
from mastra_otel.attributes import SpanFacts

pytestmark = pytest.mark.anyio

SILENT = SpanFacts(capture_content=False, max_content_length=0)


def agent_with(*calls: Any) -> Agent:
    return Agent(id="desk", model=ScriptedModel(calls))


async def test_nothing_is_measured_while_nobody_set_a_provider() -> None:
    """Installed alone it costs nothing and says nothing."""
    exporter = OtelExporter()
    agent = agent_with([text("Hi.")])

    assert isinstance(exporter, SpanExporter)
    assert isinstance(exporter.tracer, Tracer)
    assert exporter.tracer.start("run") is NOOP_SPAN
    async with Mastra(agents=[agent]) as app:
        assert app.tracer.start("run") is NOOP_SPAN
        output = await agent.stream("hi")
        assert "Hi." == await output.text
    assert output.trace_id is None


async def test_it_can_be_switched_off_by_settings(
    measured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that are given in code count more."""
    monkeypatch.setenv("MASTRA_TELEMETRY__ENABLED", "false")
    agent = agent_with([text("Hi.")], [text("Hi.")])

    async with Mastra(agents=[agent]):
        await (await agent.stream("hi")).wait()
    silent = len(measured.spans.get_finished_spans())
    async with Mastra(agents=[agent], telemetry=measured.options()):
        await (await agent.stream("hi")).wait()

    assert 0 == silent
    assert measured.named("agent run: 'desk'")


class _Collector(BaseHTTPRequestHandler):
    """Takes what is sent."""

    received: dict[str, list[tuple[dict[str, str], bytes]]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.received.setdefault(self.path, []).append((dict(self.headers), body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, dict[str, list[tuple[dict[str, str], bytes]]]]]:
    """A collector on loopback: its base URL, and what it got by path."""
    received: dict[str, list[tuple[dict[str, str], bytes]]] = {}
    handler = type("Handler", (_Collector,), {"received": received})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_an_endpoint_gets_everything_when_the_application_closes(
    collector: tuple[str, dict[str, list[tuple[dict[str, str], bytes]]]],
) -> None:
    """Spans and metrics, with the headers and the name of the service."""
    url, received = collector
    agent = agent_with([text("Hi.")])
    options = {"endpoint": url, "headers": {"x-team": "shop"}, "service_name": "desk-service"}

    async with Mastra(agents=[agent], telemetry={"otel": options}):
        await (await agent.stream("hi")).wait()

    headers, body = received["/v1/traces"][0]
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    names = {span.name for scope in resource.scope_spans for span in scope.spans}
    service = {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"]
    assert {"agent run: 'desk'", "step: 0", "llm: 'mock-1'"} == names
    assert ("desk-service", "shop") == (service, headers["x-team"])
    assert received["/v1/metrics"]


async def test_a_collector_that_is_not_there_does_not_disturb_the_run() -> None:
    """What couldn't be sent is dropped."""
    agent = agent_with([text("Hi.")])
    options = {"endpoint": "http://127.0.0.1:9", "flush_timeout_ms": 200, "metrics": False}

    async with Mastra(agents=[agent], telemetry={"otel": options}):
        output = await agent.stream("hi")
        assert "Hi." == await output.text


async def test_an_endpoint_without_what_sends_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The extra is named."""
    real = builtins.__import__

    def without(name: str, *args: Any, **members: Any) -> ModuleType:
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **members)

    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    exporter = OtelExporter(OtelOptions(endpoint="http://localhost:4318"))

    with pytest.raises(ConfigError, match=r"mastra-otel\[otlp\]"):
        async with exporter:
            pass


async def test_unknown_options_are_refused() -> None:
    """With the known ones."""
    with pytest.raises(UnknownSettingError, match="endpoint"):
        async with Mastra(telemetry={"otel": {"end_point": "x"}}):
            pass


@pytest.mark.parametrize("trace_id", ["not hexadecimal", "0" * 32])
def test_a_link_that_is_none_of_ours_begins_a_new_trace(measured: Any, trace_id: str) -> None:
    """A peer may name its traces as it likes."""
    tracer = OtelTracer(measured.tracer_provider, facts=SILENT)

    tracer.start("run", parent=TraceLink(trace_id=trace_id, span_id="1" * 16)).end()

    assert measured.named("run").parent is None


def test_a_span_does_what_the_protocol_says(measured: Any) -> None:
    """Events, lists, numbers; ended twice it is over once."""
    tracer = OtelTracer(measured.tracer_provider, facts=SILENT)

    with tracer.span("work", {"tags": ["a", "b"], "nothing": None}) as span:
        assert isinstance(span, Span)
        assert span.is_recording
        span.set_attribute("shape", {"sides": [1, 2]})
        span.add_event("seen", {"n": 1})
    span.end()

    work = measured.named("work")
    assert dict(work.attributes or {}) == {
        "mastra.span.kind": "generic",
        "mastra.tags": ("a", "b"),
        "mastra.shape.sides": "[1,2]",
    }
    assert [("seen", {"mastra.n": 1})] == [(e.name, dict(e.attributes)) for e in work.events]
    assert 1 == len(measured.spans.get_finished_spans())
