"""The mutants that only hostile names, or a second destination, can catch."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import CrashMutant

__all__ = ["FAR_MUTANTS"]

_OTHERS: Final = "magicfs.transaction.others"
_SWEEP: Final = "magicfs.transaction.sweep"
_REPLACE: Final = (Setting(mode="overwrite", shape="two"),)

FAR_MUTANTS: Final[tuple[CrashMutant, ...]] = (
    CrashMutant(
        "others below are not looked for again",
        _OTHERS,
        "await look.below(replacement.others.concerned(partitions), ended_too=True)",
        "pass",
        "g",
        _REPLACE,
        "elsewhere",
    ),
    CrashMutant(
        "others above are not looked for again",
        _OTHERS,
        "await look.above(tuple(parents), manifests=True)",
        "pass",
        "g",
        _REPLACE,
        "elsewhere",
    ),
    CrashMutant(
        "the manifests of a dataset above are not read",
        _OTHERS,
        "await self._dataset_above(parent)",
        "pass",
        "g",
        _REPLACE,
        "elsewhere",
    ),
    CrashMutant(
        "jobs above are no matter",
        _OTHERS,
        "if whatever or (changes and reaches(directory, one.scope, destination, self._partitions)):",
        "if whatever:",
        "g",
        _REPLACE,
        "elsewhere",
    ),
    CrashMutant(
        "jobs are not sought by the location that they leave",
        "magicfs.transaction.others",
        "one = await follow(engine, layout)",
        "one = None",
        "g",
        _REPLACE,
        "elsewhere",
    ),
    CrashMutant(
        "manifests further down show no dataset",
        "magicfs.protocol.other_datasets",
        'return Other(directory, "dataset", "another dataset", key)',
        "return None",
        "g",
        _REPLACE,
        "elsewhere",
    ),
    CrashMutant(
        "a partition of a column that begins with an underscore is hidden",
        "magicfs.protocol.paths",
        'return element.startswith(".") or (element.startswith("_") and "=" not in element)',
        'return element.startswith((".", "_"))',
        "b",
        _REPLACE,
        "names",
    ),
    CrashMutant(
        "a sweep goes by an id anywhere in a key",
        _SWEEP,
        'return ids.is_random(context.job) and is_named_by(key.rpartition("/")[2], context.job)',
        "return context.job in key",
        "e",
        _REPLACE,
        "names",
    ),
    CrashMutant(
        "a job id anywhere in a path keeps it from being made unique",
        "magicfs.protocol.final_names",
        "if any(_REST_OF_OURS.match(last, end) for _, end in _places(last, added, lead)):",
        'if job in "/".join(relative):',
        "d",
        _REPLACE,
        "names",
    ),
)
