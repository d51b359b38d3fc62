"""Rules for ``Job(audit=[…])``: what must be true of a job's files before they are published.

Each looks at what files say of themselves; ``FileCheck`` alone at their content, where their task still has
it: ``docs/audit.md``.
"""

from magicfs.audit.content import FileCheck, StagedFile
from magicfs.audit.rules import (
    Check,
    CompatibleSchema,
    NoNulls,
    Partitions,
    Range,
    RowChange,
    Rows,
    Rule,
    SameSchema,
)
from magicfs.audit.seen import Audited, AuditedFile, Previous

__all__ = [
    "Audited",
    "AuditedFile",
    "Check",
    "CompatibleSchema",
    "FileCheck",
    "NoNulls",
    "Partitions",
    "Previous",
    "Range",
    "RowChange",
    "Rows",
    "Rule",
    "SameSchema",
    "StagedFile",
]
