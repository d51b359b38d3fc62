"""Rules for ``Job(audit=[…])``: conditions that a job's files have to meet before they are published.

They use file statistics; only ``FileCheck`` reads the content, where the task still has it:
``docs/audit.md``.
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
