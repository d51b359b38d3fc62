"""Rules for ``Job(audit=[…])``: what must be true of a job's files before they are published.

Each looks at what files say of themselves; ``FileCheck`` alone at their content, where their task still has
it: ``docs/audit.md``.
"""

from magicfs.audit.rules import (
    Audited,
    AuditedFile,
    Check,
    CompatibleSchema,
    FileCheck,
    NoNulls,
    Partitions,
    Previous,
    Range,
    RowChange,
    Rows,
    Rule,
    SameSchema,
)
from magicfs.transaction.context import StagedFile

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
