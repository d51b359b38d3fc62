from __future__ import annotations

from pathlib import Path

import pytest

from examples.flights.buckets import LocalDirectory
from magicfs.stores.local import files as local_files
from magicfs.stores.local import uploads as local_uploads


def test_upload_whose_record_is_being_written_is_not_pending_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    directory, write_into = LocalDirectory(str(tmp_path), {}), local_files.write_into
    seen: list[list[tuple[str, str]]] = []

    def write_slowly(descriptor: int, body: bytes) -> None:
        write_into(descriptor, body[:3])
        seen.append(directory.pending("sales"))
        write_into(descriptor, body[3:])
        seen.append(directory.pending("sales"))

    (tmp_path / "sales").mkdir()
    monkeypatch.setattr(local_files, "write_into", write_slowly)
    upload = local_uploads.open_upload(tmp_path, "sales/day=1/a", {})
    assert seen == [[], []]
    assert directory.pending("sales") == [("sales/day=1/a", upload)]
