"""Runs inside a run, added up for a page: an agent, a workflow or a network behind a tool.

Every change gives one ``data-tool-*`` part with the same id, which replaces the one before
(streaming.md 12.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.messages.ui import mapping_of

__all__ = ("NestedRuns",)

#: Lists that a nested agent's chunks add to.
_LISTS: Final = {
    "source": "sources",
    "file": "files",
    "tool-call": "toolCalls",
    "tool-result": "toolResults",
}
_STEPS_END: Final = {
    "agent-execution-end": "agentId",
    "workflow-execution-end": "name",
    "tool-execution-end": "toolName",
}


class NestedRuns:
    """What is known so far about each run inside this one."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[str, Any]] = {}
        self._workflows: dict[str, dict[str, Any]] = {}
        self._networks: dict[str, dict[str, Any]] = {}
        self._marks: dict[str, tuple[int, int, int]] = {}

    def take(self, chunk: Mapping[str, Any]) -> dict[str, Any] | None:
        """The part that shows a nested chunk; None if it changes nothing."""
        match chunk.get("from"):
            case "AGENT":
                return self._agent(chunk)
            case "WORKFLOW":
                return self.workflow(chunk, nested=True)
            case "NETWORK":
                return self.network(chunk, nested=True)
            case _:
                return None

    # -- agents ---------------------------------------------------------------------------

    def _agent(self, chunk: Mapping[str, Any]) -> dict[str, Any] | None:
        run_id = str(chunk.get("runId"))
        payload = mapping_of(chunk.get("payload"))
        if chunk.get("type") == "start" or run_id not in self._agents:
            # A resumed run has no start.
            self._agents[run_id] = _new_agent(payload.get("id", ""))
            self._marks[run_id] = (0, 0, 0)
            if chunk.get("type") == "start":
                return _part("data-tool-agent", run_id, self._agents[run_id])
        agent = self._agents[run_id]
        match chunk.get("type"):
            case "text-delta":
                agent["text"] += str(payload.get("text", ""))
            case "reasoning-delta":
                agent["reasoning"].append(payload.get("text", ""))
            case "source" | "file" | "tool-call" | "tool-result" as kind:
                agent[_LISTS[kind]].append(dict(payload))
            case "object" | "object-result":
                agent["object"] = chunk.get("object")
            case "step-finish":
                self._end_agent_step(run_id, payload)
            case "finish":
                agent["finishReason"] = mapping_of(payload.get("stepResult")).get("reason")
                agent["usage"] = mapping_of(payload.get("output")).get("usage")
                agent["status"] = "finished"
            case "error":
                agent["status"] = "failed"
            case "tool-call-approval" | "tool-call-suspended":
                agent["status"] = "suspended"
            case _:
                return None
        return _part("data-tool-agent", run_id, agent)

    def _end_agent_step(self, run_id: str, payload: Mapping[str, Any]) -> None:
        agent = self._agents[run_id]
        result = mapping_of(payload.get("stepResult"))
        metadata = mapping_of(payload.get("metadata"))
        text, calls, results = self._marks[run_id]
        step = {
            "stepType": "tool-result" if agent["steps"] else "initial",
            "text": agent["text"][text:],
            "toolCalls": agent["toolCalls"][calls:],
            "toolResults": agent["toolResults"][results:],
            "finishReason": result.get("reason"),
            "usage": mapping_of(payload.get("output")).get("usage"),
            "warnings": result.get("warnings") or [],
            "response": {
                name: metadata[name] for name in ("id", "timestamp", "modelId") if name in metadata
            },
        }
        self._marks[run_id] = (
            len(agent["text"]),
            len(agent["toolCalls"]),
            len(agent["toolResults"]),
        )
        agent["steps"].append(step)
        agent["usage"], agent["warnings"] = step["usage"], step["warnings"]
        agent["response"] = step["response"]

    # -- workflows ------------------------------------------------------------------------

    def workflow(self, chunk: Mapping[str, Any], *, nested: bool) -> dict[str, Any] | None:
        """A workflow's chunk; ``data-tool-workflow`` inside a tool, else ``data-workflow``."""
        run_id = str(chunk.get("runId"))
        payload = mapping_of(chunk.get("payload"))
        flow = self._workflows.setdefault(
            run_id, {"name": "", "status": "running", "steps": {}, "output": None}
        )
        match chunk.get("type"):
            case "workflow-start":
                flow["name"] = payload.get("workflowId", "")
            case "workflow-step-start":
                flow["status"] = "running"
                flow["steps"][str(payload.get("id"))] = {
                    "name": payload.get("id"),
                    "status": payload.get("status", "running"),
                    "input": payload.get("payload"),
                    "output": None,
                    "suspendPayload": None,
                    "resumePayload": payload.get("resumePayload"),
                }
            case "workflow-step-result":
                self._end_workflow_step(flow, payload, "output")
            case "workflow-step-suspended":
                flow["status"] = "suspended"
                self._end_workflow_step(flow, payload, "suspendPayload")
            case "workflow-finish":
                flow["status"] = payload.get("workflowStatus", "success")
                flow["output"] = payload.get("finalWorkflowResult", payload.get("output"))
            case "workflow-canceled":
                flow["status"] = "canceled"
            case "workflow-paused":
                flow["status"] = "paused"
            case "workflow-step-output" | "step-output":
                return _written_by_a_step(payload)
            case _:
                return None
        return _part("data-tool-workflow" if nested else "data-workflow", run_id, flow)

    def _end_workflow_step(
        self, flow: dict[str, Any], payload: Mapping[str, Any], member: str
    ) -> None:
        step = flow["steps"].setdefault(str(payload.get("id")), {"name": payload.get("id")})
        step["status"] = payload.get("status")
        step[member] = payload.get(member)
        if payload.get("error") is not None:
            step["error"] = payload["error"]

    # -- networks -------------------------------------------------------------------------

    def network(self, chunk: Mapping[str, Any], *, nested: bool) -> dict[str, Any] | None:
        """A network's chunk; ``data-tool-network`` inside a tool, else ``data-network``."""
        run_id = str(chunk.get("runId"))
        payload = mapping_of(chunk.get("payload"))
        network = self._networks.setdefault(
            run_id, {"name": "", "status": "running", "steps": [], "usage": None, "output": None}
        )
        match str(chunk.get("type")):
            case "routing-agent-start":
                network["name"] = network["name"] or payload.get("agentId", "")
            case "agent-execution-start":
                _begin(network, payload.get("agentId"), payload.get("args"))
            case "workflow-execution-start":
                _begin(network, payload.get("name"), payload.get("args"))
            case "tool-execution-start":
                call = mapping_of(payload.get("args"))
                _begin(network, call.get("toolName"), call.get("args"))
            case ("agent-execution-end" | "workflow-execution-end" | "tool-execution-end") as kind:
                _end(network, payload.get(_STEPS_END[kind]), payload)
            case (
                "agent-execution-suspended"
                | "workflow-execution-suspended"
                | ("tool-execution-suspended")
            ):
                network["status"] = "suspended"
                if network["steps"]:
                    network["steps"][-1]["status"] = "suspended"
                    network["steps"][-1]["suspendPayload"] = payload.get("suspendPayload")
            case "routing-agent-end":
                network["usage"] = payload.get("usage", network["usage"])
            case "network-execution-event-step-finish":
                network["output"] = payload.get("result", network["output"])
            case "network-execution-event-finish":
                network["status"] = "finished"
                network["usage"] = payload.get("usage", network["usage"])
                network["output"] = payload.get("object", payload.get("result"))
            case "network-object" | "network-object-result":
                network["output"] = payload.get("object", chunk.get("object"))
            case _:
                return None
        return _part("data-tool-network" if nested else "data-network", run_id, network)


def _begin(network: dict[str, Any], name: Any, given: Any) -> None:
    network["status"] = "running"
    network["steps"].append(
        {
            "name": name,
            "status": "running",
            "input": given,
            "output": None,
            "suspendPayload": None,
            "resumePayload": None,
        }
    )


def _end(network: dict[str, Any], name: Any, payload: Mapping[str, Any]) -> None:
    open_steps = [step for step in network["steps"] if step["status"] != "success"]
    step = next((s for s in reversed(open_steps) if s["name"] == name), None)
    if step is None and open_steps:
        step = open_steps[-1]
    if step is not None:
        step["status"], step["output"] = "success", payload.get("result")
    network["usage"] = payload.get("usage", network["usage"])
    network["output"] = payload.get("result", network["output"])


def _written_by_a_step(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """A ``data-*`` part of a step's own; anything else that it writes isn't for pages."""
    inner = payload.get("output")
    if not isinstance(inner, Mapping) or not str(inner.get("type")).startswith("data-"):
        return None
    return {name: inner[name] for name in ("type", "data", "id", "transient") if name in inner}


def _new_agent(agent_id: Any) -> dict[str, Any]:
    return {
        "id": agent_id,
        "status": "running",
        "text": "",
        "reasoning": [],
        "sources": [],
        "files": [],
        "toolCalls": [],
        "toolResults": [],
        "steps": [],
        "object": None,
        "finishReason": None,
        "usage": None,
        "warnings": [],
        "response": {},
    }


def _part(kind: str, run_id: str, data: dict[str, Any]) -> dict[str, Any]:
    # A copy: what was shown doesn't change with what comes.
    return {"type": kind, "id": run_id, "data": sanitize_copy(data, lenient=True)}
