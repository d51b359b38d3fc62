"""The rules of the protocol, each of which can be switched off."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """All true: the protocol. One false: what goes wrong without that rule.

    Attributes:
        swap: The job object is written only over the version that its writer read.
        delete_last: Old files are deleted after ``completed``, never before.
        abort_first: A revert aborts an upload before it looks whether its file is visible.
        announce_first: A job writes ``prepared`` before it looks at other jobs.
        pointer_match: The pointer is written only over the version that its writer read.
        pointer_again: A job reads the pointer once more after it has announced itself.
        read_back: A complete that finds no upload looks for the file before it believes that it failed.
        object_last: Cleaning up removes the job object after everything else.
        fence_success: A revert leaves the old ``_SUCCESS`` under a new ETag, so that a late delete misses.
        head_success: ``_SUCCESS`` is written by the job that the pointer names, over what is there.
        success_first: The old ``_SUCCESS`` is deleted before the first file is completed.
        facts_gone_is_cleaned: A job past its work whose facts are gone has only to be cleaned.
        walk_always: Whoever finds the pointer moved looks for its job in the chain before linking it again.
        hide_any: Whatever ``_SUCCESS`` is there at the commit point is recorded and hidden.
        setup_fenced: A driver holds a version of the job object that no late copy of the setup brings back.
        restore_again: A revert that finds ``_SUCCESS`` changed while restoring it looks again.
        success_last: ``_SUCCESS`` is written after ``completed``.
        sum_own_name: Each compaction writes a sum of its own name, which nobody else links or removes.
        sum_match: A sum is linked only above the job down from which it sums up.
        tidy_passed: A compaction removes others' sums only where another manifest has taken their place.
        adopt_looks: Nothing is adopted while a job is unfinished.
        adopt_list_again: Only what a second listing shows, too, is adopted.
        below_counts: A job that deletes gives way to jobs and datasets that its listing shows further down.
        jobs_above: A job that deletes looks for jobs further up.
        named_above: A job that deletes asks the manifests further up for the files that it would delete.
    """

    swap: bool = True
    delete_last: bool = True
    abort_first: bool = True
    announce_first: bool = True
    pointer_match: bool = True
    pointer_again: bool = True
    read_back: bool = True
    object_last: bool = True
    fence_success: bool = True
    head_success: bool = True
    success_first: bool = True
    success_last: bool = True
    facts_gone_is_cleaned: bool = True
    walk_always: bool = True
    hide_any: bool = True
    setup_fenced: bool = True
    restore_again: bool = True
    sum_own_name: bool = True
    sum_match: bool = True
    tidy_passed: bool = True
    adopt_looks: bool = True
    adopt_list_again: bool = True
    below_counts: bool = True
    jobs_above: bool = True
    named_above: bool = True
