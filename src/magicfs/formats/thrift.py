"""Thrift's compact protocol, as far as Parquet's footers need it: a struct as a mapping of field numbers.

Nothing that is read is trusted: whatever is no such struct raises ``ThriftError``.
"""

from __future__ import annotations

import struct
from typing import Any, Final

_DEPTH_MAX: Final = 32
_VARINT_MAX: Final = 10
"""Bytes of the longest number."""
_NUMBER_MAX: Final = 2**64 - 1
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_UUID_SIZE: Final = 16


class ThriftError(ValueError):
    """The bytes are no struct in Thrift's compact protocol."""


def read_struct(raw: bytes) -> dict[int, Any]:
    """The fields of the struct that ``raw`` is, all of it, by number.

    Numbers are integers, binaries are bytes, lists and sets are lists, and structs are mappings as this one.
    """
    reader = _Reader(raw)
    found = reader.struct(0)
    if reader.position != len(raw):
        raise ThriftError("bytes behind the struct")
    return found


class _Reader:
    """Where in the bytes we are."""

    def __init__(self, raw: bytes) -> None:
        self.position = 0
        self._raw = raw

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > _DEPTH_MAX:
            raise ThriftError("nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 0x0F, head >> 4
            number = number + step if step else self._zigzag()
            if kind in (_TRUE, _FALSE):
                found[number] = kind == _TRUE
            else:
                found[number] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 5 | 6 | 4:  # the numbers
                return self._zigzag()
            case 8:  # a binary
                return self._take(self._varint())
            case 12:  # a struct
                return self.struct(depth + 1)
            case 9 | 10:  # a list, a set
                return self._list(depth + 1)
            case 1 | 2:  # of a list, where the kind does not tell the value
                return self._byte() == _TRUE
            case 3:
                return self._byte()
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 11:
                return self._map(depth + 1)
            case 13:
                return self._take(_UUID_SIZE)
            case _:
                raise ThriftError(f"no type {kind}")

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEPTH_MAX:
            raise ThriftError("nested too deeply")
        head = self._byte()
        count, kind = head >> 4, head & 0x0F
        if count == 0x0F:
            count = self._varint()
        self._check_count(count)
        return [self._value(kind, depth) for _ in range(count)]

    def _map(self, depth: int) -> dict[Any, Any]:
        if depth > _DEPTH_MAX:
            raise ThriftError("nested too deeply")
        count = self._varint()
        if not count:
            return {}
        self._check_count(count)
        kinds = self._byte()
        if kinds >> 4 in (_LIST, _SET, _MAP, _STRUCT):
            raise ThriftError("a map whose keys are no plain values")
        return {self._value(kinds >> 4, depth): self._value(kinds & 0x0F, depth) for _ in range(count)}

    def _check_count(self, count: int) -> None:
        if count > len(self._raw) - self.position:  # each element has a byte at least
            raise ThriftError("more elements than bytes")

    def _byte(self) -> int:
        try:
            found = self._raw[self.position]
        except IndexError:
            raise ThriftError("cut short") from None
        self.position += 1
        return found

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._raw):
            raise ThriftError("cut short")
        found = self._raw[self.position : end]
        self.position = end
        return found

    def _varint(self) -> int:
        found = 0
        for place in range(_VARINT_MAX):
            byte = self._byte()
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if found > _NUMBER_MAX:
                    break
                return found
        raise ThriftError("a number of too many bytes")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
