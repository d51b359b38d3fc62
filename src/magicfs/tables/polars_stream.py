"""Frames that come one after the other, as one that Polars reads while it writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


class FrameStream:
    """Hands frames out to one query, until they have too many partitions: the query then ends well.

    ``rows``: that the query has got. ``left``: frames that it has not got. ``errors``: those of the source
    are added, for Polars makes another error of them.
    """

    def __init__(
        self,
        held: deque[pl.DataFrame],  # the first ones, with the partitions that ``seen`` has
        rest: Iterator[pl.DataFrame],
        seen: pl.DataFrame,
        partitions_max: int,
        errors: list[BaseException],
    ) -> None:
        self.rows: int = 0
        self.left: Iterator[pl.DataFrame] = iter(())
        self.errors = errors
        self._columns = held[0].schema
        self._held = held
        self._rest = rest
        self._seen = seen
        self._max = partitions_max

    def frame(self) -> pl.LazyFrame:
        """What the query reads, once."""
        from polars.io.plugins import register_io_source

        return register_io_source(self._read, schema=self._columns)

    def _read(
        self, columns: Sequence[str] | None, predicate: Any, count: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        assert predicate is None
        assert count is None
        for piece in chain(popped(self._held), self._new()):
            self.rows += piece.height
            yield piece if columns is None else piece.select(columns)

    def _new(self) -> Iterator[pl.DataFrame]:
        """Frames behind those that were held, as long as all partitions are few."""
        import polars as pl

        try:
            for piece in self._rest:
                self._seen = pl.concat([self._seen, keys_of(piece, self._seen.columns)]).unique()
                if self._seen.height > self._max:
                    self.left = chain((piece,), self._rest)
                    return
                yield piece
        except Exception as error:
            self.errors.append(error)
            raise


def keys_of(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The partitions of a frame, a row each."""
    return frame.group_by(*names).agg()  # takes half as long as ``unique``


def popped(held: deque[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Each frame, of which the deque lets go."""
    while held:
        yield held.popleft()
