from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import UNKNOWN_DEPTH_LIMIT, parse, render, with_unknown
from magicfs.formats.fields import LONG_MAX, LONG_MIN, Fields


def parsed(raw: bytes) -> dict[str, object]:
    return parse("b/x.pending", raw, size_limit=10_000_000)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "No data"),
        (b" ", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[]", "expected an object, found a list"),
        (b"null", "expected an object, found null"),
        (b"true", "expected an object, found true or false"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "-Infinity"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":1,"b":{"c":1,"c":2}}', '"c" occurs twice'),
        (b'{"a":' + b"9" * 5000 + b"}", "digits"),
        (b'{"a":1}{"b":2}', "not JSON"),
        (b'{"a":"\n"}', "not JSON"),
        (b'{"a":' + b"[" * 200_000, "nested too deeply"),
        (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
    ],
)
def test_refuses_what_is_no_strict_object(raw: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem) as caught:
        parsed(raw)
    assert caught.value.path == "b/x.pending"
    assert caught.value.field == ""


def test_checks_the_size_before_anything_else() -> None:
    assert parse("p", b"{}", size_limit=2) == {}
    with pytest.raises(FormatError, match="3 bytes, and the limit is 2"):
        parse("p", b"\xff{}", size_limit=2)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (rb'{"a":{"b":["x","\uD800"]}}', "a.b[1]"),
        (rb'{"a":{"\udfffz":1}}', "a"),
        (rb'{"a b":"\uDC00\uD800"}', '["a b"]'),
    ],
)
def test_half_a_surrogate_pair_is_refused_where_it_stands(raw: bytes, field: str) -> None:
    with pytest.raises(FormatError, match="surrogate") as caught:
        parsed(raw)
    assert caught.value.field == field


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parsed(rb'{"a":"\uD83D\uDE00"}') == {"a": "😀"}


def test_errors_do_not_repeat_the_content() -> None:
    with pytest.raises(FormatError) as caught:
        parsed(b'{"' + b"k" * 1000 + b'":1,"' + b"k" * 1000 + b'":2}')
    assert len(str(caught.value)) < 200


def test_renders_one_compact_line_of_utf8() -> None:
    assert render({"b": "é😀\u2028", "a": [1, None, True], "c": {}}) == (
        '{"b":"é😀\u2028","a":[1,null,true],"c":{}}'.encode()
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"a": {"b": ["\ud800"]}}, r"a\.b\[0\]: half a surrogate pair"),
        ({"a": {"\udc00": 1}}, "a: half a surrogate pair"),
        ({"a": float("nan")}, "finite"),
    ],
)
def test_refuses_to_write_what_nobody_could_read(document: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        render(document)


def test_our_fields_win_over_unknown_ones_of_the_same_name() -> None:
    assert list(with_unknown({"a": 1}, {"a": 2, "z": 3, "b": 4}).items()) == [("a", 1), ("z", 3), ("b", 4)]


@pytest.mark.parametrize(
    ("getter", "wrong"),
    [
        (lambda f: f.required_text("a"), [1, True, [], {}, 1.5, "", None]),
        (lambda f: f.text("a"), [1, True, [], {}, 1.5]),
        (lambda f: f.nullable_text("a"), [1, True, [], {}]),
        (lambda f: f.required_integer("a"), ["1", True, 1.0, LONG_MAX + 1, LONG_MIN - 1, None]),
        (lambda f: f.required_integer("a", minimum=0), [-1]),
        (lambda f: f.integer("a"), ["1", False, 1.0, [], LONG_MAX + 1]),
        (lambda f: f.flag("a", default=True), [1, 0, "true", []]),
        (lambda f: f.texts("a"), ["x", {"b": 1}, 1]),
        (lambda f: f.text_map("a"), ["x", ["b"], 1]),
        (lambda f: f.integer_map("a"), ["x", ["b"], 1]),
        (lambda f: f.elements("a"), ["x", {}, 1, None]),
        (lambda f: f.child("a"), ["x", [], 1, False]),
        (lambda f: list(f.object_map("a")), ["x", [], 1]),
    ],
)
def test_getters_refuse_other_types_by_name(getter, wrong) -> None:
    for value in wrong:
        with pytest.raises(FormatError) as caught:
            getter(Fields("p", {"a": value}, "commits[3]"))
        assert caught.value.field == "commits[3].a"


@pytest.mark.parametrize("value", ["2", 3, True, None, 2.0])
def test_only_the_version_that_is_understood(value: object) -> None:
    with pytest.raises(FormatError) as caught:
        Fields("p", {"version": value}).version(2)
    assert caught.value.field == "version"
    Fields("p", {"version": 2}).version(2)
    Fields("p", {}).version(2)


@pytest.mark.parametrize(
    ("getter", "value", "field"),
    [
        (lambda f: f.texts("a"), ["x", 1], "a[1]"),
        (lambda f: f.text_map("a"), {"x": 1}, "a.x"),
        (lambda f: f.text_map("a"), {"x": None}, "a.x"),
        (lambda f: f.text_map("a", null=""), {"x": 1}, "a.x"),
        (lambda f: f.integer_map("a"), {"x.y z": True}, 'a["x.y z"]'),
        (lambda f: f.integer_map("a"), {"x": 2**63}, "a.x"),
        (lambda f: list(f.objects("a")), [{}, 1], "a[1]"),
        (lambda f: list(f.object_map("a")), {"x": 1}, "a.x"),
    ],
)
def test_getters_name_the_element_at_fault(getter, value: object, field: str) -> None:
    with pytest.raises(FormatError) as caught:
        getter(Fields("p", {"a": value}))
    assert caught.value.field == field


def test_null_and_absent_are_the_same_in_optional_fields() -> None:
    for members in ({}, {"a": None}):
        fields = Fields("p", dict(members))
        assert fields.text("a") == ""
        assert fields.nullable_text("a") is None
        assert fields.integer("a") == 0
        assert fields.flag("a", default=True) is True
        assert fields.texts("a") == ()
        assert fields.text_map("a") == fields.integer_map("a") == dict(fields.object_map("a")) == {}
        assert fields.child("a").rest() == {}
        assert fields.rest() == {}


def test_unknown_fields_may_nest_only_so_deep_as_can_always_be_written() -> None:
    value: object = 1
    for _ in range(UNKNOWN_DEPTH_LIMIT):
        value = [value]
    assert Fields("p", {"x": value}).rest() == {"x": value}
    with pytest.raises(FormatError, match="nested deeper") as caught:
        Fields("p", {"x y": [value]}, "commits[0]").rest()
    assert caught.value.field == 'commits[0]["x y"]'


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(LONG_MIN, LONG_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), _json))
def test_what_is_rendered_is_parsed(document: dict[str, object]) -> None:
    raw = render(document)
    assert parsed(raw) == document
    assert b"\n" not in raw
    assert parsed(json.dumps(document, indent=2).encode()) == document


@given(st.binary())
def test_arbitrary_bytes_raise_nothing_else(raw: bytes) -> None:
    with contextlib.suppress(FormatError):
        assert isinstance(parsed(raw), dict)
