"""Publications as events of CloudEvents 1.0 and OpenLineage, in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote
from uuid import UUID, uuid5

from magicfs.notify.published import Published
from magicfs.version import __version__

TYPE: Final = "magicfs.published"
"""The type of the CloudEvents."""

_SPEC: Final = "https://openlineage.io/spec"
_PRODUCER: Final = f"https://pypi.org/project/magicfs/{__version__}"
_RUNS: Final = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # the name space of URLs
_SCHEMES: Final = {"s3a": "s3", "gcs": "gs", "az": "abfss", "abfs": "abfss"}


def cloud_event(one: Published) -> dict[str, object]:
    """In structured mode. ``source`` and ``id`` are the same each time, so that a receiver can drop one."""
    return {
        "specversion": "1.0",
        "type": TYPE,
        "source": _reference(one),
        "id": one.job_id,
        "time": one.published.isoformat(timespec="milliseconds"),
        "datacontenttype": "application/json",
        "data": one.to_dict(),
    }


def lineage_event(one: Published, namespace: str, job: str) -> dict[str, object]:
    """A run event. ``namespace`` and ``job`` name what ran, as other events of your scheduler name it."""
    dataset: dict[str, object] = {"version": _facet("DatasetVersion", "1-0-1", datasetVersion=one.job_id)}
    if one.schema:
        fields = [{"name": name, "type": kind} for name, kind in one.schema]
        dataset["schema"] = _facet("Schema", "1-2-0", fields=fields)
    if change := _change(one):
        dataset["lifecycleStateChange"] = _facet("LifecycleStateChange", "1-0-1", lifecycleStateChange=change)
    statistics = {"rowCount": one.rows, "size": one.bytes, "fileCount": one.files}
    written = {name: value for name, value in statistics.items() if value is not None}
    own = {"mode": one.mode, "jobId": one.job_id, "runId": one.run_id}
    place, name = _dataset(one)
    return {
        "eventType": "COMPLETE",
        "eventTime": one.published.isoformat(timespec="milliseconds"),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {
            "runId": _run(one),
            "facets": {"magicfs": _base(f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunFacet", own)},
        },
        "job": {"namespace": namespace, "name": job},
        "inputs": [],
        "outputs": [
            {
                "namespace": place,
                "name": name,
                "facets": dataset,
                "outputFacets": {
                    "outputStatistics": _facet("OutputStatistics", "1-0-2", "OutputDataset", **written)
                },
            }
        ],
    }


def _change(one: Published) -> str | None:
    """Append changes no state that OpenLineage has a word for; the facet ``magicfs`` has the mode."""
    if one.mode.startswith("overwrite"):
        return "OVERWRITE"
    return "CREATE" if one.first else None


def _run(one: Published) -> str:
    """A UUID, the same each time."""
    try:
        return str(UUID(one.job_id))
    except ValueError:
        return str(uuid5(_RUNS, f"{one.url} {one.job_id}"))


def _dataset(one: Published) -> tuple[str, str]:
    """Name space and name, by OpenLineage's convention for object stores."""
    scheme = one.url.partition("://")[0]
    if not one.bucket:
        return "file", f"/{one.key}"
    return f"{_SCHEMES.get(scheme, scheme)}://{one.bucket}", one.key or "/"


def _reference(one: Published) -> str:
    """The URL of a dataset as the URI that CloudEvents asks for: keys hold any characters."""
    scheme, _, path = one.url.partition("://")
    return f"{scheme}://{quote(path)}"


def _facet(name: str, version: str, of: str = "Dataset", **values: object) -> dict[str, object]:
    kind = f"{name}{of}Facet"
    return _base(f"{_SPEC}/facets/{version}/{kind}.json#/$defs/{kind}", values)


def _base(schema: str, values: Mapping[str, object]) -> dict[str, object]:
    return {"_producer": _PRODUCER, "_schemaURL": schema, **values}
