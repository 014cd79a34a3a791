"""The JSON codec writes as JavaScript does, by both its ways, and loses nothing silently."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from mastra_conformance import case
from mastra_core.base import jsonjs
from mastra_core.base.jsonjs import (
    MAX_DEPTH,
    UNDEFINED,
    decode,
    decode_each,
    encode,
    encode_bytes,
    encode_each,
    is_plain,
    json_path,
    json_paths_by_size,
    sanitize_copy,
    twin,
)
from mastra_core.base.jsvalues import join_surrogates, js_number, js_string, quote
from mastra_core.base.unset import UNSET
from mastra_core.errors import ToolFailedError, WireDecodeError, WireEncodeError

texts = st.text(st.characters(exclude_categories=()), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**60), max_value=10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=25,
)


def written_slowly(value: Any) -> str:
    """The text by the exact way, whatever the value; private, to compare both ways."""
    walker = jsonjs._Plainer(lenient=False, path_prefix="$")
    return jsonjs._write(walker.plain(value))


def as_javascript_sees_it(value: Any) -> Any:
    """The value with pairs of surrogates as one character, and integral floats as integers."""
    match value:
        case str():
            return join_surrogates(value)
        case list():
            return [as_javascript_sees_it(item) for item in value]
        case dict():
            return {join_surrogates(k): as_javascript_sees_it(v) for k, v in value.items()}
        case float() if value.is_integer() and abs(value) < 1e21:
            return int(js_number(value))  # the same number, written without an exponent
        case _:
            return value


def collides(value: Any) -> bool:
    """True if two keys are the same to JavaScript."""
    match value:
        case list():
            return any(collides(item) for item in value)
        case dict():
            names = {join_surrogates(key) for key in value}
            return len(names) < len(value) or any(collides(item) for item in value.values())
        case _:
            return False


def nested(depth: int) -> list[Any]:
    """So many lists inside each other."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(json_values.filter(lambda value: not collides(value)))
def test_what_is_written_reads_back_equal(value: Any) -> None:
    """No value of JSON changes on the way through a store."""
    assert decode(encode(value)) == as_javascript_sees_it(value)


@given(json_values.filter(lambda value: not collides(value)))
def test_both_ways_write_the_same(value: Any) -> None:
    """The fast way is only taken where it gives what the exact way gives."""
    assert encode(value) == written_slowly(value)
    assert encode_bytes(value).decode() == encode(value)


@given(json_values.filter(lambda value: not collides(value)))
def test_a_sanitized_copy_is_what_a_store_gives_back(value: Any) -> None:
    """The in-memory store and the others agree, also on types."""
    copied = sanitize_copy(value)

    assert repr(copied) == repr(decode(encode(value)))


@given(json_values)
def test_what_python_writes_reads_back(value: Any) -> None:
    """Texts of other writers, with blanks and escapes, are read as the std reader does."""
    assert decode(json.dumps(value, indent=1)) == json.loads(json.dumps(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_as_the_same_number(number: float) -> None:
    """The digits are the shortest that read back."""
    assert float(js_number(number)) == number
    assert encode(number) == js_number(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-5.0, "-5"),
        (0.1, "0.1"),
        (123.456, "123.456"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (1e16, "10000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.25e21, "1.25e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (2**53 + 1, "9007199254740993"),
        (10**30, "1000000000000000000000000000000"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_numbers_are_spelled_as_in_javascript(number: float, text: str) -> None:
    """signals.md 3.2, and ECMAScript Number::toString."""
    assert js_number(number) == text


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (None, "null"),
        (True, "true"),
        (1.0, "1"),
        ([1, None, "a", [2, 3]], "1,,a,2,3"),
        ({"a": 1}, "[object Object]"),
        (UNDEFINED, "undefined"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00.000Z"),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
    ],
)
def test_strings_are_made_as_in_javascript(value: Any, text: str) -> None:
    """What ``String(value)`` gives."""
    assert js_string(value) == text


class Level(IntEnum):
    HIGH = 3


class Mode(StrEnum):
    FAST = "fast"


class Inner(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    created_at: datetime = Field(alias="createdAt")
    score: float = 1.0


@dataclass
class Point:
    x: float
    y: float = 2.5
    tags: set[str] = field(default_factory=set)


class Named(BaseModel):
    name: str

    def to_wire(self) -> dict[str, Any]:
        return {"n": self.name}


class TextWithMethods(str):
    __slots__ = ()


class Count(int):
    pass


class Share(float):
    pass


class Moment(datetime):
    pass


NOON = datetime(2026, 1, 31, 12, 0, 0, 123999, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (NOON, '"2026-01-31T10:00:00.123Z"'),
        (date(2026, 1, 31), '"2026-01-31"'),
        (time(8, 30), '"08:30:00"'),
        (timedelta(seconds=5), "5"),
        (timedelta(milliseconds=1500), "1.5"),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (Mode.FAST, '"fast"'),
        (Count(3), "3"),
        (Share(0.5), "0.5"),
        (Moment(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00.000Z"'),
        (TextWithMethods("é"), '"é"'),
        (Inner(createdAt=NOON), '{"createdAt":"2026-01-31T10:00:00.123Z","score":1}'),
        (Named(name="a"), '{"n":"a"}'),
        (Point(1.0, tags={"b", "a"}), '{"x":1,"y":2.5,"tags":["a","b"]}'),
        (b"\xff\xfe?", '"//4/"'),
        (bytearray(b"a"), '"YQ=="'),
        (memoryview(b"a"), '"YQ=="'),
        ({3, 1, 2}, "[1,2,3]"),
        (frozenset({"b"}), '["b"]'),
        ((1, (2, 3)), "[1,[2,3]]"),
        (range(3), "[0,1,2]"),
        (OrderedDict(b=1, a=2.0), '{"b":1,"a":2}'),
        (MappingProxyType({"a": (1,)}), '{"a":[1]}'),
        (
            {1: "a", True and "t": "b", None: "c", 2.5: "d"},
            '{"1":"a","t":"b","null":"c","2.5":"d"}',
        ),
        ({Colour.RED: 1, UUID(int=1): 2}, '{"red":1,"00000000-0000-0000-0000-000000000001":2}'),
        ({NOON: 1, date(2026, 1, 1): 2}, '{"2026-01-31T10:00:00.123Z":1,"2026-01-01":2}'),
        ({True: 1}, '{"true":1}'),
        ({"a": UNDEFINED, "b": UNSET, "c": None}, '{"c":null}'),
        ([UNDEFINED, None], "[null,null]"),
        (2**70, "1180591620717411303424"),
        ("\u2028é😀\x7f", '"\u2028é😀\x7f"'),
        ('\x00\x1f\b\f\n\r\t"\\/', '"\\u0000\\u001f\\b\\f\\n\\r\\t\\"\\\\/"'),
        ("a\ud800b", '"a\\ud800b"'),
        ("\ud83d\ude00", '"😀"'),
        ({"\udfff": "\ud800"}, '{"\\udfff":"\\ud800"}'),
        ([], "[]"),
        ({}, "{}"),
        ([{}, [], ""], '[{},[],""]'),
        ({"b": 1, "a": [1, "x", None, True, 1.5]}, '{"b":1,"a":[1,"x",null,true,1.5]}'),
    ],
)
def test_python_values_have_one_json_form(value: Any, text: str) -> None:
    """snapshots.md G13 and pubsub_and_lease.md 2.2."""
    assert encode(value) == text
    assert encode({"in": [value]}) == '{"in":[' + text.replace("UNDEFINED", "") + "]}"
    assert decode(encode(value)) == sanitize_copy(value)


def test_an_error_of_ours_has_its_wire_form() -> None:
    """Errors inside stored values are readable by peers."""
    error = ToolFailedError(tool_name="t", reason="broken")

    assert decode(encode({"error": error})) == {"error": error.to_wire()}


def a_cycle() -> Any:
    value: dict[str, Any] = {"list": []}
    value["list"].append(value)
    return value


def a_wide_cycle() -> Any:
    value: list[Any] = []
    value.extend([value] * 50)
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, math.nan]}, "$.a[1]"),
        ({"a": {"odd name": -math.inf}}, '$.a["odd name"]'),
        ({"at": datetime(2026, 1, 1)}, "$.at"),  # noqa: DTZ001 - naive on purpose
        ({"f": print}, "$.f"),
        ({"f": lambda: None}, "$.f"),
        ([int], "$[0]"),
        ([object()], "$[0]"),
        ([iter([])], "$[0]"),
        ([ValueError("x")], "$[0]"),
        ({"a": {1: 2, "1": 3}}, '$.a["1"]'),
        ({True: 1, "true": 2}, "$.true"),
        ({None: 1, "null": 2}, "$.null"),
        ({Mode.FAST: 1, TextWithMethods("slow"): 1, Colour.RED: 1, "red": 2}, "$.red"),
        ({"\ud83d\ude00": 1, "😀": 2}, '$["😀"]'),
        ({"a": {(1, 2): 3}}, "$.a"),
        ({"big": [10**5000]}, "$.big[0]"),
        ({datetime(2026, 1, 1): 1}, "$"),  # noqa: DTZ001 - naive on purpose
        ([datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))], "$[0]"),
        (UNDEFINED, "$"),
        (a_cycle(), "$.list[0]"),
        (a_wide_cycle(), "$[0]"),
        ({"deep": nested(MAX_DEPTH)}, "$.deep" + "[0]" * (MAX_DEPTH - 1)),
    ],
)
@pytest.mark.parametrize("writer", [encode, encode_bytes, sanitize_copy])
def test_what_has_no_json_form_is_refused_with_its_path(
    writer: Callable[..., Any], value: Any, path: str
) -> None:
    """Nothing is written that a reader would take for something else."""
    with pytest.raises(WireEncodeError) as caught:
        writer(value)

    assert caught.value.path == path
    assert caught.value.id == "SNAPSHOT_UNENCODABLE_VALUE"
    assert caught.value.details["path"] == path


def test_the_path_starts_where_the_caller_says() -> None:
    """Errors name the place in the whole document."""
    with pytest.raises(WireEncodeError, match=r"\$\.context\.a"):
        encode({"a": math.nan}, path_prefix="$.context")


@case("snapshots", 39)
def test_lenient_writes_null_for_nan_and_takes_naive_times_as_utc() -> None:
    """What JavaScript does, for values that nobody vouches for."""
    value = {"n": math.nan, "i": [math.inf], "t": datetime(2026, 1, 1)}  # noqa: DTZ001

    assert encode(value, lenient=True) == '{"n":null,"i":[null],"t":"2026-01-01T00:00:00.000Z"}'


def test_a_hundred_levels_are_written() -> None:
    """The limit is for what is deeper."""
    assert encode(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert sanitize_copy(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    assert is_plain(nested(MAX_DEPTH))
    assert not is_plain(nested(MAX_DEPTH + 1))


class _Word(str):
    """A text of a kind of its own."""

    __slots__ = ()


def _once_numbered() -> dict[Any, Any]:
    """A dict that had a key that is no text."""
    found: dict[Any, Any] = {1: 1, "a": 1}
    del found[1]
    return found


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize(
    ("part", "plain"),
    [
        ({"a": 1}, True),
        ({}, True),
        (_once_numbered(), True),
        ({1: 1}, False),
        ({"a": 1, None: 1}, False),
        ({_Word("a"): 1}, False),
        ({"a": _Word("a")}, False),
        ({"a": (1,)}, False),
        ({"a": 1.0}, False),
        ({"a": 0.5}, True),
        ({"a": 10**640}, False),
    ],
    ids=repr,
)
def test_a_plain_value_is_plain_on_every_level(part: Any, plain: bool, level: int) -> None:
    """What needs a conversion is seen wherever it stands, its keys included."""
    value: Any = [{"x": "y"}, part, {"z": []}]
    for _ in range(level):
        value = [{"inner": value, "other": None}]

    assert is_plain(value) is plain
    assert decode(encode(value)) == sanitize_copy(value)


def test_the_levels_of_records_are_those_of_their_json() -> None:
    """A model or dataclass is one level, not two."""
    value: Any = Point(0.5)
    for _ in range(MAX_DEPTH - 1):
        value = Point(value)

    with pytest.raises(WireEncodeError, match="nested more than 100"):
        encode(value)  # the innermost has a list of tags on level 101
    assert encode(value.x).count("{") == MAX_DEPTH - 1


def test_parts_that_are_shared_are_written_twice_and_not_refused() -> None:
    """Only a value inside itself is a cycle."""
    part = {"at": NOON}

    assert encode([part, part]).count("10:00:00.123Z") == 2
    assert encode([[[1]] * 200] * 200) == encode(decode(encode([[[1]] * 200] * 200)))


# -- several at once --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [],
        [{"a": 1}, [], "x", None],
        ({"a": 1}, {"b": NOON}),
        [{"a": "\ud83d"}, {"b": 1}],
        [{"a": 1.0}, {"b": [1e21]}],
    ],
    ids=repr,
)
def test_several_values_are_written_as_each_by_itself(values: Sequence[Any]) -> None:
    """Whether they are plain, have to be converted, or hold a lone surrogate."""
    written = encode_each(values)

    assert written == [encode(value).encode() for value in values]
    assert decode_each(written) == [decode(text) for text in written]


def test_a_refusal_among_several_names_its_place() -> None:
    """As with a single value."""
    with pytest.raises(WireEncodeError, match=r"\$\.content\.f"):
        encode_each([{"a": 1}, {"f": print}], path_prefix="$.content")


def test_texts_that_are_json_only_together_are_refused() -> None:
    """Nothing is read across the borders of texts."""
    with pytest.raises(WireDecodeError):
        decode_each([b'{"a":1},{"b":2}'])


def test_copies_share_nothing() -> None:
    """Changing what was stored changes nothing in the store, and vice versa."""
    part = {"list": [1]}
    original = {"a": part, "b": part, "at": NOON}
    plain = {"a": part, "b": part}

    for value in (original, plain):
        copied = sanitize_copy(value)
        copied["a"]["list"].append(2)
        assert copied["b"]["list"] == part["list"] == [1]


def test_a_twin_is_equal_and_shares_nothing() -> None:
    """Of anything that was decoded, whatever its numbers look like."""
    part = {"list": [[1], {"x": 1.5}]}
    value = decode('{"a":[{"b":[1.0,1e300,null,"\\ud83d"]},[],{}],"c":{"d":true}}')
    value["shared"] = [part, part]

    copied = twin(value)

    assert value == copied
    copied["a"][0]["b"].append(2)
    copied["shared"][0]["list"][1]["x"] = 2
    assert [1.0, 1e300, None, "\ud83d"] == value["a"][0]["b"]
    assert part == copied["shared"][1] == {"list": [[1], {"x": 1.5}]}
    assert [twin(each) for each in ("x", None, 1)] == ["x", None, 1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 2**53 + 1),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ('"\\ud800x"', "\ud800x"),
        ('["\\ud83d\\ude00", 18446744073709551617]', ["😀", 2**64 + 1]),
        ('["\\ud800", 18446744073709551617]', ["\ud800", 2**64 + 1]),
        (b'{"a":"\xc3\xa9"}', {"a": "é"}),
        (bytearray(b" [1.5] "), [1.5]),
        ('"\ud800"', "\ud800"),
        ('{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_texts_are_read_exactly(text: str | bytes, value: Any) -> None:
    """Integers keep their digits, lone surrogates stay."""
    assert decode(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NaN",
        "[Infinity]",
        "-Infinity",
        '["\\ud800", NaN]',
        "[1,]",
        "{'a':1}",
        "1 2",
        '"\x01"',
        "\ufeff1",
        "01",
        "9" * 5000,
        "[" * 100_000,
        b'"\xff"',
        b"\x80",
    ],
)
def test_what_javascript_cant_read_is_refused(text: str | bytes) -> None:
    """One typed error, whatever is wrong with the text."""
    with pytest.raises(WireDecodeError):
        decode(text)


def test_something_that_is_no_text_is_refused() -> None:
    """A wrong type is the same typed error."""
    with pytest.raises(WireDecodeError):
        decode(None)  # type: ignore[arg-type] # on purpose


def test_quote_writes_one_string() -> None:
    """Keys and texts are written alike."""
    assert quote('a"é\ud800') == '"a\\"é\\ud800"'


def test_paths_read_as_in_javascript() -> None:
    """Names that need no quotes have none."""
    assert json_path(["a", 0, "b c", "$d", "1"]) == '.a[0]["b c"].$d["1"]'
    assert json_path([]) == ""


def test_the_largest_parts_are_named() -> None:
    """A snapshot that is too large says what makes it large."""
    value = {"context": {"step": {"output": "x" * 1000, "n": 1}}, "other": ["é" * 100, 1.0]}

    paths = json_paths_by_size(value, n=3)

    assert paths[:2] == [("$.context.step.output", 1002), ("$.other[0]", 202)]
    assert len(paths) == 3


@given(json_values.filter(lambda value: not collides(value)))
def test_the_size_of_the_whole_is_the_size_of_its_text(value: Any) -> None:
    """Sizes are bytes as written."""
    assert jsonjs._measure(sanitize_copy(value), "$", []) == len(encode_bytes(value))
