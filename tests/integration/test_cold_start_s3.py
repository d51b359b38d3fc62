"""What the first file of a new process imports, beside the store's own client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from proofs.doubles.servers import Server

FIRST_FILE = """
import json, sys
import magicfs
options = json.loads(sys.argv[1])
filesystem = magicfs.MagicFileSystem(target_protocol="s3", target_options=options, tracking="memory")
filesystem.pipe(sys.argv[2] + "/d/__magic/mine/__base/x", b"x")
print(*sys.modules)
"""


@pytest.mark.process
def test_first_file_of_a_process_imports_neither_engines_nor_jobs(
    ministack: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(ministack, "cold")
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FILE, json.dumps(ministack.storage_options()), bucket],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.split())
    assert "magicfs.stores.s3.store" in modules
    roots = {name.partition(".")[0] for name in modules}
    assert not roots & {"boto3", "s3transfer", "gcsfs", "adlfs", "google", "azure"}
    assert not roots & {"numpy", "pandas", "pyarrow", "pyspark", "rich"}
    rooms = {name.split(".")[1] for name in modules if name.startswith("magicfs.")}
    assert not rooms & {"committers", "datasets", "job", "manifests", "spark", "testing", "transaction"}
    # Whoever reads a job object needs it, and who asks for directories the tree.
    assert not modules & {"magicfs.formats.job_object", "magicfs.stores.trees"}
