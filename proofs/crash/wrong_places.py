"""The mutants that only hostile names, or a second destination, can catch."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import Mutant

__all__ = ["FAR_MUTANTS"]

_OTHERS: Final = "magicfs.transaction.others"
_SWEEP: Final = "magicfs.transaction.sweep"
_REPLACE: Final = (Setting(mode="overwrite", shape="two"),)

FAR_MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "others below are not looked for again",
        "g",
        _OTHERS,
        "await look.below(replacement.others.concerned(partitions), ended_too=True)",
        "pass",
        _REPLACE,
        "elsewhere",
    ),
    Mutant(
        "others above are not looked for again",
        "g",
        _OTHERS,
        "await look.above(tuple(parents), manifests=True)",
        "pass",
        _REPLACE,
        "elsewhere",
    ),
    Mutant(
        "the manifests of a dataset above are not read",
        "g",
        _OTHERS,
        "await self._dataset_above(parent)",
        "pass",
        _REPLACE,
        "elsewhere",
    ),
    Mutant(
        "jobs above are no matter",
        "g",
        _OTHERS,
        "if whatever or (changes and reaches(directory, one.scope, destination, self._partitions)):",
        "if whatever:",
        _REPLACE,
        "elsewhere",
    ),
    Mutant(
        "jobs are not sought by the location that they leave",
        "g",
        "magicfs.transaction.others",
        "one = await follow(engine, layout)",
        "one = None",
        _REPLACE,
        "elsewhere",
    ),
    Mutant(
        "manifests further down show no dataset",
        "g",
        "magicfs.protocol.other_datasets",
        'return Other(directory, "dataset", "another dataset", key)',
        "return None",
        _REPLACE,
        "elsewhere",
    ),
    Mutant(
        "a partition of a column that begins with an underscore is hidden",
        "b",
        "magicfs.protocol.paths",
        'return element.startswith(".") or (element.startswith("_") and "=" not in element)',
        'return element.startswith((".", "_"))',
        _REPLACE,
        "names",
    ),
    Mutant(
        "a sweep goes by an id anywhere in a key",
        "e",
        _SWEEP,
        'return ids.is_random(context.job) and is_named_by(key.rpartition("/")[2], context.job)',
        "return context.job in key",
        _REPLACE,
        "names",
    ),
    Mutant(
        "a job id anywhere in a path keeps it from being made unique",
        "d",
        "magicfs.protocol.final_names",
        "if any(_REST_OF_OURS.match(last, end) for _, end in _places(last, added, lead)):",
        'if job in "/".join(relative):',
        _REPLACE,
        "names",
    ),
)
