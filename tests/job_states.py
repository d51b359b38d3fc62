"""The states of jobs as the documents draw them."""

from __future__ import annotations

from magicfs.protocol.job_state import ENDS, NEXT, JobState


def diagram() -> str:
    """The table as a Mermaid state diagram; the documents hold exactly this text."""
    lines = ["stateDiagram-v2", "    [*] --> open: set up"]
    lines += [f"    {old} --> {new}" for old in JobState for new in JobState if new in NEXT[old]]
    lines += [f"    {state} --> [*]: job object removed" for state in JobState if state in ENDS]
    return "\n".join(lines)
