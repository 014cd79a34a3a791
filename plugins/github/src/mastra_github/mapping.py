"""A GitHub delivery as a notification: what happened, how urgent it is, what it belongs to.

``coalesce_key`` names the subject and its outcome: a check suite that fails twice is one
record, and a later success is news of its own that doesn't hide the failure.
``dedupe_key`` names the delivery: GitHub sends one again when it got no answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.wire.notifications import NotificationPriority

__all__ = (
    "MAX_SUMMARY",
    "SOURCE",
    "Delivery",
    "notification_from_delivery",
    "resources_of_delivery",
)

SOURCE: Final = "github"

#: Longest summary; it is all that a model reads of an event.
MAX_SUMMARY: Final = 160

_BAD_OUTCOMES: Final = frozenset(
    {"failure", "error", "timed_out", "startup_failure", "action_required", "changes_requested"}
)
_SERIOUS: Final = frozenset({"critical", "high"})

#: Kinds that somebody should read soon although nothing failed.
_FOR_PEOPLE: Final = frozenset(
    {
        "issue_comment.created",
        "issues.opened",
        "issues.reopened",
        "pull_request.opened",
        "pull_request.reopened",
        "pull_request.closed",
        "pull_request.ready_for_review",
        "pull_request_review.submitted",
        "pull_request_review_comment.created",
        "release.published",
    }
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One webhook delivery: the event's name and the body."""

    event: str
    payload: dict[str, Any]


def resources_of_delivery(delivery: Delivery) -> list[str]:
    """
    What a thread can subscribe to and hear of this: ``owner/repo``, ``owner/repo#12`` for an
    issue or a pull request, ``owner`` of an organisation.
    """
    payload = delivery.payload
    repository = _at(payload, "repository.full_name")
    numbers = [_at(payload, "issue.number"), _at(payload, "pull_request.number")]
    numbers += _numbers_of_pulls(payload.get(delivery.event))
    found = [f"{repository}#{number}" for number in numbers if repository and number is not None]
    found += [name for name in (repository, _at(payload, "organization.login")) if name]
    return list(dict.fromkeys(map(str, found)))


def _numbers_of_pulls(subject: Any) -> list[Any]:
    """The pull requests that a check or a workflow run belongs to."""
    pulls = subject.get("pull_requests") if isinstance(subject, Mapping) else None
    return [pull.get("number") for pull in pulls or () if isinstance(pull, Mapping)]


def notification_from_delivery(delivery: Delivery) -> dict[str, Any]:
    """What ``send_notification_signal`` takes, under Python names."""
    payload = delivery.payload
    kind = _kind(delivery)
    outcome = _outcome(delivery)
    repository = _repository(payload)
    subject = _subject(delivery)
    return {
        "source": SOURCE,
        "kind": kind,
        "priority": _priority(delivery, kind, outcome),
        "summary": _short(_sentence(delivery)),
        "payload": payload,
        "source_id": subject,
        "dedupe_key": _fingerprint(delivery),
        "coalesce_key": ":".join(filter(None, (repository, subject, outcome))),
        "attributes": {"repository": repository, **({"outcome": outcome} if outcome else {})},
    }


def _kind(delivery: Delivery) -> str:
    action = delivery.payload.get("action")
    return f"{delivery.event}.{action}" if action else delivery.event


def _fingerprint(delivery: Delivery) -> str:
    text = json.dumps([delivery.event, delivery.payload], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _repository(payload: Mapping[str, Any]) -> str:
    """Its full name; an organisation's where the event has no repository."""
    name = _at(payload, "repository.full_name") or _at(payload, "organization.login")
    return str(name or "unknown")


# -- outcome and priority -------------------------------------------------------------------

_OUTCOME_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "check_run": ("check_run.conclusion", "check_run.status"),
    "check_suite": ("check_suite.conclusion", "check_suite.status"),
    "workflow_run": ("workflow_run.conclusion", "workflow_run.status"),
    "deployment_status": ("deployment_status.state",),
    "status": ("state",),
    "dependabot_alert": ("alert.state",),
    "pull_request_review": ("review.state",),
}


def _outcome(delivery: Delivery) -> str | None:
    """How it ended, or stands; None for events without such a thing."""
    for path in _OUTCOME_PATHS.get(delivery.event, ()):
        if found := _at(delivery.payload, path):
            return str(found)
    return None


def _priority(delivery: Delivery, kind: str, outcome: str | None) -> NotificationPriority:
    if delivery.event == "dependabot_alert" and outcome == "open":
        severity = _at(delivery.payload, "alert.security_advisory.severity")
        return "urgent" if severity in _SERIOUS else "high"
    if outcome in _BAD_OUTCOMES:
        return "urgent" if _is_production(delivery) else "high"
    return "medium" if kind in _FOR_PEOPLE else "low"


def _is_production(delivery: Delivery) -> bool:
    return bool(_at(delivery.payload, "deployment.environment") == "production")


# -- the subject ----------------------------------------------------------------------------

_SUBJECT_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "check_run": ("check_run.head_sha", "check_run.name"),
    "check_suite": ("check_suite.id",),
    "workflow_run": ("workflow_run.id",),
    "dependabot_alert": ("alert.number",),
    "deployment_status": ("deployment.id",),
    "issue_comment": ("issue.number",),
    "issues": ("issue.number",),
    "ping": ("hook_id",),
    "pull_request": ("pull_request.number",),
    "pull_request_review": ("pull_request.number",),
    "pull_request_review_comment": ("pull_request.number",),
    "push": ("ref",),
    "release": ("release.tag_name",),
    "status": ("sha", "context"),
}


def _subject(delivery: Delivery) -> str:
    """What the event is about, as a key: its kind and the ids that name it."""
    paths = _SUBJECT_PATHS.get(delivery.event, ())
    ids = [str(_at(delivery.payload, path)) for path in paths]
    return "/".join((delivery.event, *ids))


# -- the sentence ---------------------------------------------------------------------------


def _sentence(delivery: Delivery) -> str:
    try:
        return _SENTENCES.get(delivery.event, _any_sentence)(delivery.payload)
    except (AttributeError, LookupError, TypeError):
        # Cut short, or of a form that nobody has seen: the event is told all the same.
        return _any_sentence(delivery.payload)


def _check_run(payload: Mapping[str, Any]) -> str:
    run = payload["check_run"]
    branch = _at(run, "check_suite.head_branch")
    return f"Check {run['name']} on {branch} is {run.get('conclusion') or run.get('status')}"


def _check_suite(payload: Mapping[str, Any]) -> str:
    suite = payload["check_suite"]
    state = suite.get("conclusion") or suite.get("status")
    return f"Check suite on {suite.get('head_branch')} is {state}"


def _workflow_run(payload: Mapping[str, Any]) -> str:
    run = payload["workflow_run"]
    name = run.get("name") or f"run {run.get('run_number')}"
    state = run.get("conclusion") or run.get("status")
    return f"Workflow {name} on {run.get('head_branch')} is {state}"


def _dependabot(payload: Mapping[str, Any]) -> str:
    alert = payload["alert"]
    package = _at(alert, "dependency.package.name")
    severity = _at(alert, "security_advisory.severity")
    return f"Security alert {alert['number']} ({severity}) about {package} is {alert['state']}"


def _deployment(payload: Mapping[str, Any]) -> str:
    state = _at(payload, "deployment_status.state")
    return f"Deployment to {_at(payload, 'deployment.environment')} is {state}"


def _issue_comment(payload: Mapping[str, Any]) -> str:
    issue = payload["issue"]
    who = _at(payload, "comment.user.login")
    return f"{who} commented on issue {issue['number']}: {issue['title']}"


def _issue(payload: Mapping[str, Any]) -> str:
    issue = payload["issue"]
    return f"Issue {issue['number']} was {payload.get('action')}: {issue['title']}"


def _pull_request(payload: Mapping[str, Any]) -> str:
    pull = payload["pull_request"]
    done = "merged" if pull.get("merged") else payload.get("action")
    return f"Pull request {pull['number']} was {done}: {pull['title']}"


def _review(payload: Mapping[str, Any]) -> str:
    who, state = _at(payload, "review.user.login"), _at(payload, "review.state")
    return f"{who} reviewed pull request {_at(payload, 'pull_request.number')}: {state}"


def _review_comment(payload: Mapping[str, Any]) -> str:
    who, number = _at(payload, "comment.user.login"), _at(payload, "pull_request.number")
    return f"Review comment of {who} on pull request {number} was {payload.get('action')}"


def _push(payload: Mapping[str, Any]) -> str:
    ref = str(payload["ref"]).removeprefix("refs/heads/").removeprefix("refs/")
    if payload.get("deleted"):
        return f"{_at(payload, 'pusher.name')} deleted {ref}"
    message = str(_at(payload, "head_commit.message") or "").split("\n")[0]
    return f"{_at(payload, 'pusher.name')} pushed to {ref}: {message}"


def _release(payload: Mapping[str, Any]) -> str:
    return f"Release {_at(payload, 'release.tag_name')} was {payload.get('action')}"


def _status(payload: Mapping[str, Any]) -> str:
    return f"Status {payload['context']} of {str(payload['sha'])[:7]} is {payload['state']}"


def _ping(payload: Mapping[str, Any]) -> str:
    return f"Webhook {payload['hook_id']} was set up"


def _any_sentence(payload: Mapping[str, Any]) -> str:
    who = _at(payload, "sender.login") or "Somebody"
    return f"{who} did something: {payload.get('action') or 'no action was named'}"


_SENTENCES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "check_run": _check_run,
    "check_suite": _check_suite,
    "workflow_run": _workflow_run,
    "dependabot_alert": _dependabot,
    "deployment_status": _deployment,
    "issue_comment": _issue_comment,
    "issues": _issue,
    "ping": _ping,
    "pull_request": _pull_request,
    "pull_request_review": _review,
    "pull_request_review_comment": _review_comment,
    "push": _push,
    "release": _release,
    "status": _status,
}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_SUMMARY else f"{line[: MAX_SUMMARY - 1]}…"


def _at(value: Any, path: str) -> Any:
    """The member at a dotted path; None if there is none."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
