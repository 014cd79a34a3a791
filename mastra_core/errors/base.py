"""The root of all errors and warnings, and their form outside this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from mastra_core.errors.details import JsonDetail, clean_details, cut_ids, reason_of, redact_text

__all__ = (
    "MAX_CAUSE_DEPTH",
    "CapabilityNotSupportedError",
    "Category",
    "ClosedError",
    "ConfigError",
    "DegradedWarning",
    "ErrorFields",
    "ExperimentalWarning",
    "InvalidUrlError",
    "MastraDeprecationWarning",
    "MastraError",
    "MastraWarning",
    "PluginWarning",
    "UnknownSchemeError",
    "UnknownSettingError",
    "WireDecodeError",
    "WireEncodeError",
    "WireError",
    "WireVersionError",
    "camel",
    "error_from_wire",
    "wire_from_error",
    "with_facts",
)

#: Who can do something about the error.
Category: TypeAlias = Literal["UNKNOWN", "USER", "SYSTEM", "THIRD_PARTY"]

#: How many causes are written; longer chains are cut (snapshots.md 3.7).
MAX_CAUSE_DEPTH: Final = 8


class ErrorFields(TypedDict, total=False):
    """What every error's constructor takes besides its facts."""

    id: str | None
    hint: str | None
    details: Mapping[str, object] | None


class MastraError(Exception):
    """
    Something went wrong, by name.

    Args:
        message: What happened, in one sentence that stands alone.
        id: The stable identifier, if it is more special than that of the class.
        hint: What to do about it; shown below the traceback as a note.
        details: The facts as JSON values; passwords and tokens are replaced.
    """

    id: str = "MASTRA_ERROR"
    domain: str = "MASTRA"
    category: Category = "UNKNOWN"
    #: True only if repeating the same call is safe.
    retryable: bool = False
    http_status: int = 500
    hint: str | None = None

    def __init__(
        self,
        message: str,
        *,
        id: str | None = None,
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.details: dict[str, JsonDetail] = clean_details(details)
        self.message: str = cut_ids(redact_text(message), self.details)
        super().__init__(self.message)
        if id is not None:
            self.id = id
        if hint is not None:
            self.hint = redact_text(hint)
            self.add_note(self.hint)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The subclasses' constructors take facts, not the sentence, so they can't be called again.
        return _rebuild, (type(self), dict(self.__dict__))

    def to_wire(self) -> dict[str, Any]:
        """The error as it is stored and sent: plain JSON values, no traceback."""
        return _wire_from_mastra_error(self, MAX_CAUSE_DEPTH)

    @staticmethod
    def from_wire(value: Mapping[str, Any]) -> MastraError:
        """The error that a peer wrote, as the class of its name or id; see ``error_from_wire``."""
        return error_from_wire(value)


def _rebuild(cls: type[MastraError], state: dict[str, Any]) -> MastraError:
    error = cls.__new__(cls, state["message"])
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


def wire_from_error(error: BaseException, *, depth: int = MAX_CAUSE_DEPTH) -> dict[str, Any]:
    """Any exception as plain JSON values: ours with all facts, others as name and message."""
    if isinstance(error, MastraError):
        return _wire_from_mastra_error(error, depth)
    wire: dict[str, Any] = {"name": type(error).__name__, "message": redact_text(reason_of(error))}
    _add_cause(wire, error, depth)
    return wire


def _wire_from_mastra_error(error: MastraError, depth: int) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "name": type(error).__name__,
        "message": error.message,
        "code": error.id,
        "domain": error.domain,
        "category": error.category,
        "details": clean_details(error.details),
    }
    _add_cause(wire, error, depth)
    return wire


def _add_cause(wire: dict[str, Any], error: BaseException, depth: int) -> None:
    if error.__cause__ is not None and depth > 0:
        wire["cause"] = wire_from_error(error.__cause__, depth=depth - 1)


def error_from_wire(value: Mapping[str, Any]) -> MastraError:
    """
    Read an error that a peer wrote; missing members are tolerated.

    The class is found by ``name``, else by ``code``; an unknown error becomes a
    plain ``MastraError`` that keeps the peer's code, domain and category.
    """
    code = value.get("code")
    cls = _class_named(value.get("name"), code)
    details = value.get("details")
    state: dict[str, Any] = {
        "message": redact_text(str(value.get("message") or "")),
        "details": clean_details(details if isinstance(details, Mapping) else None),
    }
    for member, attribute in (("code", "id"), ("domain", "domain"), ("category", "category")):
        given = value.get(member)
        if isinstance(given, str) and given != getattr(cls, attribute):
            state[attribute] = given
    error = _rebuild(cls, state)
    cause = value.get("cause")
    if isinstance(cause, Mapping):
        error.__cause__ = error_from_wire(cause)
    return error


def _class_named(name: object, code: object) -> type[MastraError]:
    by_code: type[MastraError] | None = None
    for cls in _tree(MastraError):
        if cls.__name__ == name:
            return cls
        if by_code is None and "id" in cls.__dict__ and cls.id == code:
            by_code = cls
    return by_code or MastraError


def _tree(cls: type[MastraError]) -> Iterator[type[MastraError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _tree(child)


class ConfigError(MastraError):
    """A setting, option or combination of them can't work."""

    id = "MASTRA_CONFIG_INVALID"
    category: Category = "USER"
    http_status = 400


class ClosedError(ConfigError, RuntimeError):
    """What was to do something is closed already; nothing was done."""

    id = "MASTRA_CLOSED"

    def __init__(
        self, message: str | None = None, *, what: str = "", **fields: Unpack[ErrorFields]
    ) -> None:
        fields.setdefault("hint", "Use it inside 'async with Mastra(...)'.")
        super().__init__(message or f"The {what} is closed.", **with_facts(fields, what=what))


class InvalidUrlError(ConfigError, ValueError):
    """The text is not a URL that selects an adapter."""

    id = "MASTRA_CONFIG_INVALID_URL"

    def __init__(
        self,
        message: str | None = None,
        *,
        url: str | None = None,
        reason: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        because = f": {reason}" if reason else ""
        super().__init__(
            message or f"{redact_text(url or '')!r} is not a valid adapter URL{because}.",
            **with_facts(fields, url=url, reason=reason),
        )


class UnknownSchemeError(ConfigError):
    """No adapter, installed or known, answers to the scheme of the URL."""

    id = "MASTRA_CONFIG_UNKNOWN_SCHEME"

    def __init__(
        self,
        message: str | None = None,
        *,
        role: str = "storage",
        scheme: str = "",
        url: str | None = None,
        suggestion: str | None = None,
        known: tuple[str, ...] | list[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        sentence = f"Unknown {role} scheme {scheme!r}"
        sentence += f" in {redact_text(url)!r}." if url else "."
        if suggestion:
            sentence += f" Did you mean {suggestion!r}?"
        if known:
            sentence += f" Known: {', '.join(known)}."
        super().__init__(
            message or sentence,
            **with_facts(
                fields, role=role, scheme=scheme, url=url, suggestion=suggestion, known=list(known)
            ),
        )


class UnknownSettingError(ConfigError):
    """A setting or option that nobody reads."""

    id = "MASTRA_CONFIG_UNKNOWN_SETTING"

    def __init__(
        self,
        message: str | None = None,
        *,
        name: str = "",
        where: str | None = None,
        known: tuple[str, ...] | list[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        sentence = f"Unknown setting {name!r}" + (f" in {where}." if where else ".")
        if known:
            sentence += f" Known: {', '.join(known)}."
        super().__init__(
            message or sentence,
            **with_facts(fields, name=name, where=where, known=list(known)),
        )


class CapabilityNotSupportedError(MastraError, NotImplementedError):
    """The adapter never promised this; nothing was done."""

    id = "MASTRA_CAPABILITY_NOT_SUPPORTED"
    category: Category = "USER"
    http_status = 501

    def __init__(
        self,
        message: str | None = None,
        *,
        adapter: str = "",
        capability: str = "",
        role: str = "storage",
        **fields: Unpack[ErrorFields],
    ) -> None:
        self.adapter = adapter
        self.capability = capability
        super().__init__(
            message
            or f"{_ROLE_NAMES.get(role, role)} {adapter!r} does not support {capability!r}.",
            **with_facts(fields, adapter=adapter, capability=capability, role=role),
        )


_ROLE_NAMES: Final[Mapping[str, str]] = {
    "storage": "Storage",
    "pubsub": "PubSub",
    "lease": "Lease provider",
}


class WireError(MastraError):
    """Something can't cross the border of this process."""

    id = "MASTRA_WIRE_ERROR"
    category: Category = "SYSTEM"


class WireDecodeError(WireError, ValueError):
    """Text or a value from outside isn't what it should be."""

    id = "MASTRA_WIRE_DECODE_FAILED"
    http_status = 400


class WireEncodeError(WireError, TypeError):
    """A value has no form outside this process; nothing was written."""

    id = "SNAPSHOT_UNENCODABLE_VALUE"
    category: Category = "USER"
    http_status = 400

    def __init__(
        self,
        message: str | None = None,
        *,
        path: str = "$",
        reason: str = "has no JSON form",
        **fields: Unpack[ErrorFields],
    ) -> None:
        self.path = path
        super().__init__(
            message or f"The value at {path} can't be stored: it {reason}.",
            **with_facts(fields, path=path, reason=reason),
        )


class WireVersionError(WireError):
    """Written by a newer version than this one can read."""

    id = "SNAPSHOT_VERSION_UNSUPPORTED"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        what: str = "snapshot",
        found: object = None,
        supported: object = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"The {what} has version {found!r}, but only versions up to {supported!r} "
            "can be read. Upgrade mastra-core.",
            **with_facts(fields, what=what, found=found, supported=supported),
        )


def with_facts(fields: ErrorFields, **facts: object) -> ErrorFields:
    """The caller's fields, with the facts that are known put below the caller's details."""
    known = {camel(name): fact for name, fact in facts.items() if fact not in (None, "", [])}
    return {**fields, "details": {**known, **(fields.get("details") or {})}}


def camel(name: str) -> str:
    """The wire name of a fact: ``run_id`` is ``runId``."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


class MastraWarning(UserWarning):
    """Something works, but not as well as you may think."""


class PluginWarning(MastraWarning):
    """A plugin was put aside."""


class DegradedWarning(MastraWarning):
    """A weaker guarantee than usual, such as a lease that only this process sees."""


class MastraDeprecationWarning(DeprecationWarning):
    """This name goes away; the text says what to use instead."""


class ExperimentalWarning(MastraWarning):
    """This may change without notice."""
