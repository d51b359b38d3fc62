"""Hadoop: its configuration as arguments of ``Job``, and jobs of its own, whose driver was a JVM.

Nothing of Hadoop's can finish a job whose driver died. What its tasks have committed is taken for that of a
job of ours, whose object says by whom it was begun (``begunBy``); from there on it is a job like any other.
``finder`` is what ``magicfs.datasets`` asks: ``magic``, ``staging`` and ``manifest`` find jobs of these
committers, ``fates`` says what became of uploads that are on record, and ``job`` finishes or discards one.
``conf`` reads a configuration.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.classic.reading import stocator_files as stocator_files
    from magicfs.hadoop.conf import from_hadoop_conf as from_hadoop_conf

_HOMES = {"from_hadoop_conf": "magicfs.hadoop.conf", "stocator_files": "magicfs.classic.reading"}
__all__ = ["from_hadoop_conf", "stocator_files"]
__getattr__: Final = lazy_names(__name__, _HOMES)
