"""Every error can be raised, copied, pickled and sent; texts that are promised stay as they are."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import Enum

import pytest

from mastra_core import errors
from mastra_core.errors import MastraError, error_from_wire, wire_from_error


def all_classes() -> list[type[MastraError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, MastraError)]


def tree_in_docstring() -> list[tuple[int, str]]:
    text = errors.__doc__ or ""
    lines = re.findall(r"^    ([│ ├└─]*)(\w+(?:Error))\b", text, flags=re.MULTILINE)
    return [(len(indent) // 4, name) for indent, name in lines]


@pytest.fixture(params=all_classes(), ids=lambda cls: cls.__name__)
def error(request: pytest.FixtureRequest) -> MastraError:
    made = request.param(
        "It went wrong.", id="MASTRA_TEST_FAILED", hint="Try harder.", details={"attempt": 2}
    )
    assert isinstance(made, MastraError)
    return made


def test_every_class_takes_a_sentence_an_id_a_hint_and_details(error: MastraError) -> None:
    """Adapters may raise any class with words and an id of their own."""
    assert error.id == "MASTRA_TEST_FAILED"
    assert error.hint == "Try harder."
    assert error.__notes__ == ["Try harder."]
    assert error.details["attempt"] == 2
    assert str(error) == error.message


@pytest.mark.parametrize("cls", all_classes(), ids=lambda cls: cls.__name__)
def test_a_class_that_takes_facts_writes_its_own_sentence(cls: type[MastraError]) -> None:
    """Call sites give facts, not prose; a missing fact doesn't break the sentence."""
    parameters = inspect.signature(cls).parameters
    message = parameters.get("message", None)
    if message is None or message.default is inspect.Parameter.empty:
        return  # needs words

    make: Callable[..., MastraError] = cls
    made = make("k") if issubclass(cls, errors.LeaseError) else make()

    assert len(str(made).split()) > 2


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_a_clone_has_the_same_class_and_facts(
    error: MastraError, clone: Callable[[MastraError], MastraError]
) -> None:
    """Errors survive copying and the way to another process of ours."""
    cloned = clone(error)

    assert type(cloned) is type(error)
    assert cloned.__dict__ == error.__dict__
    assert cloned.args == (error.message,)
    assert str(cloned) == str(error)


def test_the_wire_form_reads_back_as_the_same_error(error: MastraError) -> None:
    """What we write is plain JSON, and we read it as the class that was written."""
    wire = error.to_wire()

    read = MastraError.from_wire(json.loads(json.dumps(wire, allow_nan=False)))

    assert type(read) is type(error)
    assert read.to_wire() == wire
    assert (read.retryable, read.http_status) == (type(error).retryable, type(error).http_status)


@pytest.mark.parametrize("cls", all_classes(), ids=lambda cls: cls.__name__)
def test_every_class_says_who_can_do_something_about_it(cls: type[MastraError]) -> None:
    """Ids, domains, categories and statuses are those that peers know."""
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", cls.id)
    assert cls.category in {"UNKNOWN", "USER", "SYSTEM", "THIRD_PARTY"}
    assert cls.domain in {
        "MASTRA",
        "STORAGE",
        "AGENT",
        "TOOL",
        "LLM",
        "MASTRA_WORKFLOW",
        "MASTRA_SERVER",
    }
    assert 400 <= cls.http_status < 600
    assert cls.__doc__


def test_no_two_classes_share_an_id() -> None:
    """The id alone tells the class, so a peer's error finds its way back."""
    ids = [cls.id for cls in all_classes() if "id" in cls.__dict__]

    assert len(ids) == len(set(ids)) == len(all_classes())


def test_the_docstring_shows_the_whole_tree() -> None:
    """The tree that people read is the tree that they catch."""
    shown = tree_in_docstring()
    parents: dict[int, str] = {}
    for level, name in shown:
        cls = getattr(errors, name)
        if level:
            assert getattr(errors, parents[level - 1]) in cls.__bases__, name
        parents[level] = name

    assert {name for _, name in shown} == {cls.__name__ for cls in all_classes()}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            errors.AdapterNotInstalledError(scheme="postgresql", extra="postgres"),
            (
                "No adapter for 'postgresql://' is installed. "
                "Install it with: pip install 'mastra-core[postgres]'"
            ),
        ),
        (
            errors.DriverNotInstalledError(
                distribution="mastra-postgres", version="0.4.0", driver="psycopg", extra="postgres"
            ),
            (
                "mastra-postgres 0.4.0 is installed, but its driver 'psycopg' is not. "
                "Install it with: pip install 'mastra-core[postgres]'"
            ),
        ),
        (
            errors.UnknownSchemeError(
                scheme="postgress",
                url="postgress://db.example/app",
                suggestion="postgresql",
                known=["file", "libsql", "memory", "mongodb", "postgresql", "redis"],
            ),
            (
                "Unknown storage scheme 'postgress' in 'postgress://db.example/app'. "
                "Did you mean 'postgresql'? "
                "Known: file, libsql, memory, mongodb, postgresql, redis."
            ),
        ),
        (
            errors.PluginBrokenError(
                plugin="acme",
                distribution="mastra-acme",
                version="1.2.0",
                reason="ImportError: cannot import name 'X'",
            ),
            (
                "Plugin 'acme' (mastra-acme 1.2.0) could not be loaded: "
                "ImportError: cannot import name 'X'. "
                "Details: python -m mastra_core plugins acme"
            ),
        ),
        (
            errors.PluginIncompatibleError(
                plugin="acme",
                distribution="mastra-acme",
                version="1.2.0",
                needs="2.0",
                host="mastra-core 0.4.0",
                offers="1.1",
            ),
            (
                "Plugin 'acme' (mastra-acme 1.2.0) needs plugin API 2.0; mastra-core 0.4.0 offers 1.1. "
                "Upgrade mastra-core or install an older mastra-acme."
            ),
        ),
        (
            errors.CapabilityNotSupportedError(adapter="redis", capability="memory.move_thread"),
            "Storage 'redis' does not support 'memory.move_thread'.",
        ),
        (
            errors.NotificationNotFoundError(notification_id="n1", thread_id="t1"),
            "Notification n1 was not found for thread t1",
        ),
        (
            errors.LeaseLostError("k", owner="me", current="you"),
            "Lease 'k' belongs to 'you', not to 'me'.",
        ),
        (
            errors.NotSuspendedError(run_id="r1", status="success"),
            "Run 'r1' is not suspended; its status is 'success'.",
        ),
        (
            errors.InvalidUrlError(url="libsql://u:hidden@h?authToken=x", reason="no host"),
            "'libsql://u:***@h?authToken=***' is not a valid adapter URL: no host.",
        ),
        (
            errors.PluginConflictError(name="postgresql", distributions=["a", "b"]),
            (
                "The scheme 'postgresql' is claimed by a and b. "
                'Choose one in mastra.toml: [plugins.prefer] postgresql = "a"'
            ),
        ),
        (
            errors.UnknownSettingError(name="mastra_pol", where="the URL", known=["mastra_pool"]),
            "Unknown setting 'mastra_pol' in the URL. Known: mastra_pool.",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MastraError) else "",
)
def test_sentences_that_are_promised(error: MastraError, text: str) -> None:
    """These texts are in the design or in a contract."""
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "error_id", "status"),
    [
        (errors.RunNotFoundError(run_id="r"), "AGENT_RESUME_NO_SNAPSHOT_FOUND", 404),
        (
            errors.NotSuspendedError(run_id="r", tool_call_id="c", pending=["d"]),
            "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED",
            409,
        ),
        (errors.NotSuspendedError(run_id="r"), "AGENT_RESUME_RUN_NOT_SUSPENDED", 409),
        (errors.ResumeClaimedError(run_id="r"), "WORKFLOW_RESUME_ALREADY_CLAIMED", 409),
        (errors.ResumeClaimedError(run_id="r", agent_id="a"), "AGENT_RESUME_ALREADY_CLAIMED", 409),
        (errors.ForeignRunError(run_id="r", agent_id="a"), "AGENT_RESUME_FOREIGN_RUN", 403),
        (errors.ResumeKindMismatchError(run_id="r"), "AGENT_RESUME_KIND_MISMATCH", 409),
        (
            errors.AmbiguousRunError(run_id="r", tool_call_ids=["a", "b"]),
            "AGENT_RESUME_AMBIGUOUS_TOOL_CALL",
            409,
        ),
        (
            errors.AmbiguousRunError(thread_id="t", run_ids=["a", "b"]),
            "AGENT_SEND_TOOL_APPROVAL_AMBIGUOUS_SUSPENDED_RUNS",
            409,
        ),
        (
            errors.wrong_list_argument("per_page", 0, agent_name="helper"),
            "AGENT_LIST_SUSPENDED_RUNS_INVALID_PER_PAGE",
            400,
        ),
        (
            errors.wrong_list_argument("page", -1, agent_name="helper"),
            "AGENT_LIST_SUSPENDED_RUNS_INVALID_PAGE",
            400,
        ),
        (errors.no_run_storage("a"), "AGENT_LIST_SUSPENDED_RUNS_NO_STORAGE", 400),
        (errors.FencedOutError(key="r", fence=1, current=2), "STALE_CLAIM", 409),
        (errors.StorageConflictError(expected="a", found="b"), "STORAGE_VERSION_CONFLICT", 409),
        (
            errors.snapshot_too_large(run_id="r", size=9, limit=5, largest=[("$.a", 4)]),
            "SNAPSHOT_TOO_LARGE",
            400,
        ),
        (errors.WireEncodeError(path="$.a", reason="is NaN"), "SNAPSHOT_UNENCODABLE_VALUE", 400),
        (errors.WireVersionError(found=2, supported=1), "SNAPSHOT_VERSION_UNSUPPORTED", 409),
        (errors.LeaseLostError("k"), "AGENT_THREAD_LEASE_LOST", 409),
        (errors.LeaseConflictError("k"), "AGENT_THREAD_LEASE_CONFLICT", 409),
    ],
)
def test_ids_that_the_specs_name(error: MastraError, error_id: str, status: int) -> None:
    """The ids and statuses of snapshots.md 8.1, 9.3 and 12, and of signals.md."""
    assert error.to_wire()["code"] == error_id
    assert error.http_status == status


def test_a_resume_claim_of_an_agent_is_in_the_agents_domain() -> None:
    """Agents and workflows share the class, not the domain."""
    assert errors.ResumeClaimedError(tool_call_id="c").domain == "AGENT"
    assert errors.ResumeClaimedError(run_id="r").domain == "MASTRA_WORKFLOW"


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.InvalidUrlError, ValueError),
        (errors.AdapterNotInstalledError, ImportError),
        (errors.DriverNotInstalledError, ImportError),
        (errors.CapabilityNotSupportedError, NotImplementedError),
        (errors.WireDecodeError, ValueError),
        (errors.WireEncodeError, TypeError),
        (errors.StorageTimeoutError, TimeoutError),
        (errors.StorageArgumentError, ValueError),
        (errors.NotFoundError, LookupError),
        (errors.InvalidSignalError, ValueError),
        (errors.RunNotFoundError, LookupError),
        (errors.RunTimeoutError, TimeoutError),
        (errors.ToolTimeoutError, TimeoutError),
        (errors.TaskTimeoutError, TimeoutError),
    ],
)
def test_errors_can_be_caught_as_the_builtin_they_are(
    cls: type[MastraError], builtin: type[Exception]
) -> None:
    """Callers who don't know our names catch Python's."""
    assert issubclass(cls, builtin)


@pytest.mark.parametrize(("status", "retryable"), [(429, True), (503, True), (400, False)])
def test_a_model_error_is_retryable_by_its_status(status: int, retryable: bool) -> None:
    """A busy provider may be asked again, a wrong request may not."""
    error = errors.ModelHTTPError(status=status, retry_after=2.5, model="m")

    assert error.retryable is retryable
    assert error.retry_after == 2.5


def test_a_tripwire_keeps_what_the_processor_said() -> None:
    """The run's end needs the reason, the retry wish and the metadata."""
    error = errors.TripwireError("No.", processor_id="guard", retry=True, metadata={"score": 1})

    assert (str(error), error.retry, error.metadata) == ("No.", True, {"score": 1})
    assert error.details == {"processorId": "guard", "retry": True}


def test_the_cause_is_written_and_read() -> None:
    """A chain crosses the border, foreign exceptions as name and message."""
    try:
        try:
            raise ConnectionResetError("redis://u:hidden@h went away")
        except ConnectionResetError as exc:
            raise errors.StorageConnectionError("Redis didn't answer.") from exc
    except MastraError as exc:
        wire = exc.to_wire()

    read = error_from_wire(wire)

    assert wire["cause"] == {
        "name": "ConnectionResetError",
        "message": "redis://u:***@h went away",
    }
    assert str(read.__cause__) == "redis://u:***@h went away"


def test_a_long_chain_of_causes_is_cut() -> None:
    """A chain of any length, or one that bites its tail, has a bounded form."""
    error = MastraError("a")
    error.__cause__ = error

    assert json.dumps(error.to_wire()).count('"cause"') == 8
    assert wire_from_error(ValueError("x")) == {"name": "ValueError", "message": "x"}


def test_an_error_of_a_newer_peer_keeps_what_it_says() -> None:
    """Unknown names become the root class with the peer's code, domain and category."""
    read = error_from_wire(
        {"message": "m", "code": "NEW", "domain": "MCP", "category": "SYSTEM", "name": "NewError"}
    )

    assert type(read) is MastraError
    assert (read.id, read.domain, read.category) == ("NEW", "MCP", "SYSTEM")


def test_an_error_of_a_typescript_peer_is_found_by_its_code() -> None:
    """Node writes ``Error`` as the name; the code says what it is."""
    read = error_from_wire({"message": "gone", "name": "Error", "code": "STALE_CLAIM"})

    assert type(read) is errors.FencedOutError
    assert type(error_from_wire({})) is MastraError


class Colour(Enum):
    RED = "red"


def test_details_are_plain_json_without_secrets() -> None:
    """Whatever is given, the details can be stored, sent and shown."""
    error = MastraError(
        "See redis://u:hidden@h/0?token=abc&db=1.",
        hint="Use redis://u:hidden@h.",
        details={
            "url": "postgresql://u:hidden@h/app?sslpassword=abc",
            "password": "hidden",
            "max_tokens": 5,
            "key": "a lease",
            "nested": {"apiKey": "hidden", "list": [1, (2.5, None), {"b", "a"}]},
            "nan": float("nan"),
            "at": datetime(2026, 1, 1, tzinfo=UTC),
            "on": date(2026, 1, 1),
            "colour": Colour.RED,
            "error": ValueError("bad"),
            "object": object,
            "deep": [[[[[[[[1]]]]]]]],
        },
    )

    assert error.message == "See redis://u:***@h/0?token=***&db=1."
    assert error.hint == "Use redis://u:***@h."
    assert error.details == {
        "url": "postgresql://u:***@h/app?sslpassword=***",
        "password": "***",
        "max_tokens": 5,
        "key": "a lease",
        "nested": {"apiKey": "***", "list": [1, [2.5, None], ["a", "b"]]},
        "nan": "nan",
        "at": "2026-01-01T00:00:00+00:00",
        "on": "2026-01-01",
        "colour": "red",
        "error": "ValueError: bad",
        "object": "<class 'object'>",
        "deep": [[[[[["[[1]]"]]]]]],
    }
    assert "hidden" not in json.dumps(error.to_wire())


def test_warnings_are_filtered_by_their_families() -> None:
    """Users silence ours with one line, and deprecations stay deprecations."""
    assert issubclass(errors.MastraWarning, UserWarning)
    assert issubclass(errors.MastraDeprecationWarning, DeprecationWarning)
    for cls in (errors.PluginWarning, errors.DegradedWarning, errors.ExperimentalWarning):
        assert issubclass(cls, errors.MastraWarning)


def test_long_ids_are_cut_in_sentences_and_kept_in_details() -> None:
    """A caller who sends 10 kB as an id doesn't get it back in every line of the log."""
    long = "run's\n" + "x" * 10_000

    for made in (
        errors.RunNotFoundError(run_id=long),
        errors.NotificationNotFoundError(notification_id=long, thread_id=long),
        errors.AmbiguousRunError(thread_id="t", run_ids=[long, "short"]),
    ):
        assert len(str(made)) < 500
        assert "…" in str(made)
        assert "x" * 10_000 in json.dumps(made.details)


def test_ids_of_usual_length_and_other_facts_are_told_whole() -> None:
    """Only ids are cut; a long path or reason is what somebody needs to read."""
    reason = "because " * 40

    assert "x" * 100 in str(errors.RunNotFoundError(run_id="x" * 100))
    assert reason in str(errors.StepFailedError(step_id="s", reason=reason))


def test_refused_values_are_shown_short() -> None:
    """Texts keep their quotes; everything else is cut at the end of its ``repr``."""
    assert "'a'" == errors.shown("a")
    assert f"'{'x' * 100}…'" == errors.shown("x" * 10_000)
    assert "5" == errors.shown(5)
    assert 101 == len(errors.shown(["x" * 10_000]))
