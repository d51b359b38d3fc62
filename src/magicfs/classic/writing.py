"""Files that are visible as soon as they are closed, and never if their ``with`` body raises."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from magicfs.classic.records import unfinished_name
from magicfs.classic.tracking import Scope, final_tracker
from magicfs.errors import UsageError
from magicfs.filesystem.write_only_file import Sink, WriteOnlyFile, raised_in_body
from magicfs.protocol.ids import JobId


class StoreTarget:
    """A file of an object store's filesystem, such as s3fs: one PUT, or a multipart upload.

    ``file`` is what the filesystem opened: with ``discard``, and ``commit`` unless closing publishes
    (``autocommit``).
    """

    def __init__(self, file: Any, *, autocommit: bool) -> None:
        self._file = file
        self._autocommit = autocommit

    def write(self, data: memoryview) -> None:
        self._file.write(data)

    def close(self) -> None:
        self._file.close()

    def commit(self) -> None:
        if not self._autocommit:
            self._file.commit()

    def discard(self) -> None:
        try:
            self._file.discard()
        finally:
            self.abandon()

    def abandon(self) -> None:
        # A buffered file of fsspec publishes when it is closed, and is closed when it is collected.
        with contextlib.suppress(AttributeError):
            self._file.closed = True


class LocalTarget:
    """A hidden file next to the final one, renamed over it at the end: readers never see a part.

    Its directory is made. Label and job go into the hidden name. With ``if_absent`` it raises FileExistsError
    if a file is there.
    """

    def __init__(self, path: str, label: str, job: str, *, if_absent: bool) -> None:
        self._path = Path(path)
        if self._path.exists() and if_absent:  # looked at always: a name may be too long
            raise FileExistsError(f"{path} already exists; choose another name, or open it with 'wb'")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._work = self._path.with_name(unfinished_name(secrets.token_hex(8), label, JobId(job)))
        self._pid = os.getpid()
        # Unbuffered: what a buffer holds would be written twice after a fork.
        self._file = self._work.open("xb", buffering=0)

    def write(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]

    def close(self) -> None:
        self._file.close()

    def commit(self) -> None:
        self._work.replace(self._path)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        self._work.unlink(missing_ok=True)

    def abandon(self) -> None:
        if os.getpid() == self._pid:  # after a fork the hidden file is the parent's
            self.discard()


Target = StoreTarget | LocalTarget
"""Where the bytes of a file go until ``close`` publishes it, where the filesystem does so, or ``commit``.

``abandon`` is ``discard`` without a request: for the garbage collector, after Ctrl-C, and after a fork.
"""


class FinalFile(WriteOnlyFile):
    """A file at the destination, open for writing from any one thread.

    ``close()`` publishes it. Leaving a ``with`` block by an exception discards it, and so does garbage
    collection. After that ``close()`` does nothing. An error in writing or closing discards it as far as the
    store lets us, and is raised. Once its task has committed or aborted it cannot be published.

    With ``autocommit=False`` not ``close`` publishes but ``commit``, as fsspec's transactions ask.
    """

    def __init__(self, target: Target, path: str, scope: Scope, *, autocommit: bool = True) -> None:
        self._autocommit = autocommit
        self._sink = _TargetSink(target, path, scope)
        super().__init__(self._sink)

    def close(self) -> None:
        """Publish the file; a second call, or one after it was discarded, does nothing.

        Raises UsageError if its task has ended; nothing was published. After an OSError it may be there all
        the same, and the task cannot commit.
        """
        if self._sink.state != "open":
            return
        self._sink.check_process()
        if (raised := raised_in_body(self._sink.opened_during)) is not None:
            self.abort_after(raised)
            return
        self._finish()
        if self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Publish the file, where ``close`` has not; a second call does nothing. Raises UsageError if it was
        discarded or its task has ended, OSError as ``close`` does.
        """
        if self._sink.state == "open":
            self._finish()
        self._sink.commit()

    def _finish(self) -> None:
        super().close()  # hands over what is buffered
        self._sink.finish()

    def abort(self) -> None:
        """Discard the file. A second call, or one after it was published, does nothing. After an OSError
        nothing is published either; the job's cleanup aborts the upload.
        """
        self._sink.abort()

    def __del__(self) -> None:
        sink = getattr(self, "_sink", None)
        if sink is not None and (sink.state == "open" or (sink.state == "closed" and not self._autocommit)):
            sink.drop("discarded")

    def _dealloc_warn(self, source: object) -> None:  # noqa: ARG002
        # io.TextIOWrapper announces here that it is collected unclosed, flushes, and then calls close().
        if self._sink.state == "open":
            self._sink.drop("abandoned")


class _TargetSink(Sink):
    """Brings the bytes of one file to its target."""

    def __init__(self, target: Target, path: str, scope: Scope) -> None:
        super().__init__(path)
        self._target = target
        self._scope = scope
        self._ticket = final_tracker().opened(scope, path)

    def take(self, data: memoryview) -> None:
        self.check_process()
        with self._discard_on_error():
            self._target.write(data)

    def finish(self) -> None:
        """No more bytes come: close the target. Does nothing if the file has ended."""
        if self.state != "open":
            return
        self.end("closed")
        with self._discard_on_error():
            self._check_scope()
            self._target.close()

    def commit(self) -> None:
        """Publish what is finished. UsageError if it was discarded; a second call does nothing."""
        if self.state == "committed":
            return
        if self.state in {"discarded", "abandoned"}:
            raise UsageError(f"{self.path} was discarded; write it again")
        with self._discard_on_error():
            self._check_scope()
            self._target.commit()
        self.end("committed")
        final_tracker().finished(self._scope, self._ticket, self.path)

    def abort(self) -> None:
        """Discard the file. A second call, or one after it was published, does nothing."""
        if self.state not in {"open", "closed"}:
            return
        if os.getpid() != self._pid:
            self._abandon("discarded")
            return
        self.end("discarded")
        final_tracker().discarded(self._scope, self._ticket)
        self._target.discard()

    def drop(self, state: str) -> None:
        """Discard a file that was collected."""
        if os.getpid() == self._pid:
            final_tracker().dropped(self._scope, self._ticket)
        self._abandon(state)

    def _abandon(self, state: str) -> None:
        if state == "abandoned":  # what is about to be written is dropped, and must not fail
            self.state = state
        else:
            self.end(state)
        final_tracker().discarded(self._scope, self._ticket)
        self._target.abandon()

    def check_process(self) -> None:
        """Raise UsageError after a fork: nobody runs the loop, and the upload is the parent's."""
        if os.getpid() != self._pid:
            self._abandon("discarded")
            raise UsageError(f"{self.path} was opened in another process; open it here to write")

    def _check_scope(self) -> None:
        if not final_tracker().is_open(self._scope, self._ticket):
            raise UsageError(
                f"{self.path} was closed too late: its task has committed or aborted; nothing was published; "
                "close every file before its task commits"
            )

    @contextlib.contextmanager
    def _discard_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            known = self.state == "open" or isinstance(error, UsageError)
            self.end("discarded")
            final_tracker().discarded(self._scope, self._ticket)
            if not known:  # the answer to a request that publishes may be what was lost
                final_tracker().doubtful(self._scope, [self.path])
            if not isinstance(error, Exception):
                self._target.abandon()
                raise
            try:
                self._target.discard()
            except Exception as second:  # noqa: BLE001 - the first error must not be hidden
                error.add_note(f"and the upload could not be aborted: {second}")
            raise
