"""Conditions on rows, such as ``day < '2026-01-01' and region in ('eu', 'us')``, asked of whole files.

Only bounds are known of a file: the values of its partition, and the statistics of its footer. So there are
three answers: all of its rows meet the condition, none does, or it is unknown. Null is as in SQL: it meets no
comparison, nor the opposite of one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any, Final, Literal

from magicfs.errors import UsageError

Answer = Literal["all", "none", "unknown"]
"""Whether the rows of a file meet a condition."""

Literals = str | int | Decimal | bool

_Outcomes = frozenset[bool | None]
_ANY: Final[_Outcomes] = frozenset({True, False, None})
_DEPTH_MAX: Final = 50
_DIGITS_MAX: Final = 1000
_NOT_A_NUMBER: Final = Decimal("NaN")
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
      | (?P<word>[^\W\d][\w.]*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}


@dataclass(frozen=True, slots=True)
class Values:
    """What a column holds in one file, as far as that is known."""

    low: Any = None  # no value is less; None if that is not known
    high: Any = None  # no value is greater
    nulls: bool = True  # whether there may be null
    values: bool = True  # whether there may be anything else

    @classmethod
    def one(cls, value: Any) -> Values:
        """A column that holds one value in every row."""
        return cls(nulls=True, values=False) if value is None else cls(value, value, nulls=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was read."""

    text: str
    names: tuple[str, ...]  # of the columns that it asks about, each once, in order
    _outcomes: Callable[[Mapping[str, Values]], _Outcomes]

    def of_file(self, columns: Mapping[str, Values]) -> Answer:
        """Whether the rows of a file meet it, given what is known of its columns.

        Raises UsageError if a value cannot be compared with what the condition compares it with.
        """
        outcomes = self._outcomes(columns)
        if True not in outcomes:
            return "none"
        return "all" if outcomes == {True} else "unknown"


def parse_condition(text: str) -> Condition:
    """Read a condition: comparisons (``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``), ``in (…)``, ``is null``,
    ``is not null``, joined by ``and``, ``or``, ``not`` and parentheses. Text stands in single quotes, a name
    of unusual characters in double quotes.

    Raises UsageError if it is none.
    """
    reader = _Reader(text, list(_tokens(text)))
    outcomes = reader.either(0)
    reader.expect_end()
    return Condition(text, tuple(dict.fromkeys(reader.names)), outcomes)


_Evaluate = Callable[[Mapping[str, Values]], _Outcomes]
_Token = tuple[str, str]


def _tokens(text: str) -> Iterator[_Token]:
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            raise UsageError(
                f"the condition {text!r} cannot be read at {text[place:].strip()[:20]!r}; write comparisons "
                "such as day < '2026-01-01', with text in single quotes, joined by and, or, not"
            )
        place = match.end()
        kind = match.lastgroup
        assert kind is not None
        word = match[kind]
        if kind == "word" and word.lower() in _KEYWORDS:
            kind, word = "keyword", word.lower()
        yield kind, word


class _Reader:
    """Reads tokens, by one method for each level of the grammar."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.place = 0
        self.names: list[str] = []

    def either(self, depth: int) -> _Evaluate:
        if depth > _DEPTH_MAX:
            raise self.error("is nested too deeply")
        found = [self.both(depth)]
        while self.take("keyword", "or"):
            found.append(self.both(depth))
        return found[0] if len(found) == 1 else _joined(found, _or)

    def both(self, depth: int) -> _Evaluate:
        found = [self.one(depth)]
        while self.take("keyword", "and"):
            found.append(self.one(depth))
        return found[0] if len(found) == 1 else _joined(found, _and)

    def one(self, depth: int) -> _Evaluate:
        if self.take("keyword", "not"):
            if depth > _DEPTH_MAX:
                raise self.error("is nested too deeply")
            inner = self.one(depth + 1)
            return lambda columns: frozenset(_not(one) for one in inner(columns))
        if self.take("sign", "("):
            inner = self.either(depth + 1)
            self.expect("sign", ")")
            return inner
        return self.comparison()

    def comparison(self) -> _Evaluate:
        name = self.name()
        if self.take("keyword", "is"):
            wanted = not self.take("keyword", "not")
            self.expect("keyword", "null")
            return lambda columns: _is_null(columns.get(name, Values()), wanted)
        if negated := self.take("keyword", "not"):
            self.expect("keyword", "in")
        if negated or self.take("keyword", "in"):
            some = _joined([_compared(name, "=", one) for one in self.literals()], _or)
            return (lambda columns: frozenset(_not(one) for one in some(columns))) if negated else some
        kind, sign = self.next("a comparison")
        sign = {"==": "=", "<>": "!="}.get(sign, sign)
        if kind != "sign" or sign not in _OPPOSITE:
            raise self.error(f"has {sign!r} where a comparison is expected")
        return _compared(name, sign, self.literal())

    def name(self) -> str:
        kind, word = self.next("the name of a column")
        if kind == "quoted":
            word = word[1:-1].replace('""', '"')
        elif kind != "word":
            raise self.error(f"has {word!r} where the name of a column is expected")
        self.names.append(word)
        return word

    def literals(self) -> list[Literals]:
        self.expect("sign", "(")
        found = [self.literal()]
        while self.take("sign", ","):
            found.append(self.literal())
        self.expect("sign", ")")
        return found

    def literal(self) -> Literals:
        kind, word = self.next("a value")
        match kind, word:
            case "text", _:
                return word[1:-1].replace("''", "'")
            case "number", _:
                return self.number(word)
            case "keyword", "true" | "false":
                return word == "true"
        raise self.error(f"has {word!r} where a value is expected; write text in single quotes")

    def number(self, word: str) -> int | Decimal:
        try:
            found = Decimal(word)
        except ArithmeticError:
            found = _NOT_A_NUMBER
        if len(word) > _DIGITS_MAX or not found.is_finite():
            raise UsageError(
                f"the condition compares with a number of {len(word)} characters, {word[:20]}, which is too "
                "large; nothing was changed; write a smaller one"
            )
        return int(word) if re.fullmatch(r"[+-]?\d+", word) else found

    def next(self, what: str) -> _Token:
        if self.place == len(self.tokens):
            raise self.error(f"ends where {what} is expected")
        self.place += 1
        return self.tokens[self.place - 1]

    def take(self, kind: str, word: str) -> bool:
        if self.tokens[self.place : self.place + 1] != [(kind, word)]:
            return False
        self.place += 1
        return True

    def expect(self, kind: str, word: str) -> None:
        if not self.take(kind, word):
            there = self.tokens[self.place][1] if self.place < len(self.tokens) else "its end"
            raise self.error(f"has {there!r} where {word!r} is expected")

    def expect_end(self) -> None:
        if self.place < len(self.tokens):
            there = self.tokens[self.place][1]
            raise self.error(f"continues with {there!r} where it should end; quote text, as '2026-01-31'")

    def error(self, problem: str) -> UsageError:
        return UsageError(f"the condition {self.text!r} {problem}; nothing was changed")


def _joined(parts: list[_Evaluate], join: Callable[[bool | None, bool | None], bool | None]) -> _Evaluate:
    def joined(first: _Outcomes, second: _Outcomes) -> _Outcomes:
        return frozenset(join(*pair) for pair in product(first, second))

    return lambda columns: reduce(joined, (part(columns) for part in parts))


def _and(first: bool | None, second: bool | None) -> bool | None:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def _or(first: bool | None, second: bool | None) -> bool | None:
    if first or second:
        return True
    return None if first is None or second is None else False


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _is_null(column: Values, wanted: bool) -> _Outcomes:
    found = set[bool | None]()
    if column.nulls:
        found.add(wanted)
    if column.values:
        found.add(not wanted)
    return frozenset(found)


_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compared(name: str, sign: str, wanted: Literals) -> _Evaluate:
    def outcomes(columns: Mapping[str, Values]) -> _Outcomes:
        column = columns.get(name)
        if column is None:
            return _ANY
        found: set[bool | None] = {None} if column.nulls else set()
        if column.values:
            low, high = (_as_compared(name, one, wanted) for one in (column.low, column.high))
            found |= _of_values(sign, low, high, wanted)
        return frozenset(found)

    return outcomes


def _of_values(sign: str, low: Any, high: Any, wanted: Literals) -> set[bool | None]:
    """What a comparison may give for values between two bounds, either of which may be None."""
    if sign in {"=", "!="}:
        is_possible = (low is None or low <= wanted) and (high is None or high >= wanted)
        is_certain = low is not None and low == high == wanted
        found: set[bool | None] = {False} if not is_possible else {True} if is_certain else {True, False}
        return found if sign == "=" else {_not(one) for one in found}
    compare = _SIGNS[sign]
    found = set()
    # Of all values the lowest is the first to be less, the highest the first to be greater.
    first, last = (low, high) if sign in {"<", "<="} else (high, low)
    if first is None or compare(first, wanted):
        found.add(True)
    if last is None or not compare(last, wanted):
        found.add(False)
    return found


def _as_compared(name: str, value: Any, wanted: Literals) -> Any:
    """A value as one of the kind that it is compared with: those of partitions are text. None if it has no
    place in their order.
    """
    if value is None or (type(value) is type(wanted) and not isinstance(value, Decimal)):
        return value
    if isinstance(wanted, bool):
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            return value.lower() == "true"
    elif isinstance(wanted, int | Decimal) and not isinstance(value, bool):
        number: Decimal | None
        try:
            number = Decimal(str(value))
        except ArithmeticError:
            number = _NOT_A_NUMBER if _NUMBER.fullmatch(str(value)) else None
        if number is not None:
            return number if number.is_finite() else None  # such as NaN, which each reader orders otherwise
    raise UsageError(
        f"{name} has the value {value!r}, which cannot be compared with {wanted!r}; nothing was changed; "
        "write text in single quotes, and numbers without"
    )
