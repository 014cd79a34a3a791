"""JSON that ``jsonb`` can't hold as it is comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.jsonjs import decode, encode
from mastra_postgres import PostgresStorage
from mastra_postgres.json_form import from_column, to_column

pytestmark = pytest.mark.anyio

ODD: dict[str, Any] = {
    "nul": "a\0b",
    "lone surrogate": "cut \ud83d here",
    "mark and nul": "\uf8ff\0\uf8ff0000",
    "nul in a name": {"nul\0key": 1, "cut\ud83dkey": 2},
    "escapes that are none": {"a": "\\u0000 \\ud800", "b": "\0"},
    "list": [1, "\0"],
    "lone value": {"value": "\0"},
    "flag of the form": {"": "pg-esc1"},
    "flag and value": {"": "pg-esc1", "value": 1},
    "flag and nul": {"": "pg-esc1", "value": "\0", "x": {"": "pg-esc1"}},
    "large fraction": {"a": 1.7976931348623157e308, "b": -1.5e25, "c": 1e30},
    "large integer": {"a": 10**30, "b": 10**30 + 1},
    "fraction and nul": {"a": 1e30, "b": "\0"},
    "exponent in a text": "1e+30 and 2e+5",
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
async def test_odd_values_come_back(store: PostgresStorage, value: Any) -> None:
    """Through a real column, types of numbers included."""
    await store.thread_state.set_state("t", "odd", value)

    found = await store.thread_state.get_state("t", "odd")

    assert value == found
    assert encode(value) == encode(found) or isinstance(value, dict)


def test_a_usual_document_is_left_alone() -> None:
    """Also one with a mark of ours, if nothing in it has to be escaped."""
    data = encode({"a": "\uf8ff apple", "b": "tab\t \\u0000", "c": 1 + 1e20}).encode()

    assert data is to_column(data)
    assert decode(data) == decode(from_column(data))


texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_whatever_is_stored_holds_nothing_that_is_refused(value: Any) -> None:
    """What the column gets has no NUL and no lone surrogate, and says the same."""
    stored = to_column(encode(value).encode())

    text = stored.decode()
    assert "\0" not in str(decode(text))
    decode(text)
    spaced = text.replace('{"":"pg-esc1"', '{"": "pg-esc1"', 1)
    assert value == decode(from_column(spaced.encode()))
