"""What Hadoop's own tests of its committers ask, one by one, and the tests here that show the same of ours.

A behaviour that ours has on purpose otherwise is shown by the test of what ours does; the note says so. One
that cannot be asked here has a reason. Numbers are those of an inventory of Hadoop's tests, 1 to 162.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["BEHAVIOURS", "Behaviour"]


@dataclass(frozen=True)
class Behaviour:
    """One of Hadoop's behaviours.

    Attributes:
        title: What is asked.
        shown: Tests that show it: file, ``::``, name of the function or ``Class.function``.
        otherwise: What ours does in its place on purpose, if it does.
        reason: Why it cannot be asked here; only where nothing shows it.
    """

    title: str
    shown: tuple[str, ...] = ()
    otherwise: str = ""
    reason: str = ""


def _by(title: str, *shown: str, otherwise: str = "") -> Behaviour:
    return Behaviour(title, shown, otherwise)


def _not(title: str, reason: str) -> Behaviour:
    return Behaviour(title, reason=reason)


_HERE: Final = "tests/unit/test_hadoop_behaviours.py::"
_PATHS: Final = "tests/unit/protocol/test_magic_paths.py::"
_LAYOUT: Final = "tests/unit/protocol/test_ids_and_layout.py::"
_NAMES: Final = "tests/unit/protocol/test_final_names.py::"
_OPTIONS: Final = "tests/unit/filesystem/test_magic_filesystem_options.py::"
_LOOKING: Final = "tests/unit/filesystem/test_magic_filesystem_looking.py::"
_WRITING: Final = "tests/unit/filesystem/test_magic_filesystem_writing.py::"
_REMOVING: Final = "tests/unit/filesystem/test_magic_filesystem_removing.py::"
_UPLOAD: Final = "tests/unit/test_delayed_upload.py::"
_COPIES: Final = "tests/unit/test_copies.py::"
_JOB: Final = "tests/unit/test_job.py::"
_CONF: Final = "tests/unit/test_hadoop_conf.py::"
_MODES: Final = "tests/unit/test_modes.py::"
_STAGING: Final = "tests/unit/test_staging.py::"
_STAGED_JOBS: Final = "tests/unit/test_staging_jobs.py::"
_CLUSTER: Final = "tests/unit/test_staging_cluster.py::"
_ENGINE: Final = "tests/unit/test_engine.py::"
_RETRIES: Final = "tests/integration/test_s3_retries.py::"
_BAD: Final = "tests/integration/test_bad_input.py::"
_ORACLE: Final = "tests/spark/test_hadoop_oracle.py::"
_TASKS: Final = "tests/unit/test_manifest_tasks.py::"
_MANIFEST: Final = "tests/unit/test_manifest_committer.py::"
_RENAMES: Final = "tests/unit/test_renames.py::"
_PENDING: Final = "tests/unit/formats/test_formats_pending.py::"
_LIFECYCLE: Final = "proofs/committer_exam/lifecycle.py::LifecycleExam."
_ATTEMPTS: Final = "proofs/committer_exam/attempts.py::AttemptsExam."
_ABORTS: Final = "proofs/committer_exam/aborts.py::AbortsExam."
_CONFLICTS: Final = "proofs/committer_exam/modes.py::ConflictsExam."
_DOCUMENTS: Final = "proofs/committer_exam/documents.py::DocumentsExam."
_RECOVERIES: Final = "proofs/committer_exam/recoveries.py::RecoveriesExam."
_NEIGHBOURS: Final = "proofs/committer_exam/neighbours.py::NeighboursExam."
_EXAM_NAMES: Final = "proofs/committer_exam/names.py::NamesExam."
_SIZES: Final = "proofs/committer_exam/sizes.py::SizesExam."
_FAMILY: Final = "proofs/committer_exam/family.py::FamilyExam."
_JVM_COMMITS: Final = "proofs/hadoop/handed_over.py::"

_ONE_DESTINATION: Final = f"{_CONFLICTS}test_job_makes_of_old_data_what_its_mode_says"

_OF_PATHS: Final[dict[int, Behaviour]] = {
    1: _by(
        "an empty path has no elements to take apart",
        f"{_HERE}test_001_empty_path_names_no_file",
    ),
    2: _by("two slashes alone have no elements", f"{_HERE}test_002_to_006_elements_of_a_path"),
    3: _by("the root has no elements", f"{_HERE}test_002_to_006_elements_of_a_path"),
    4: _by("elements of an absolute path, in order", f"{_HERE}test_002_to_006_elements_of_a_path"),
    5: _by("a slash at the end adds no element", f"{_HERE}test_002_to_006_elements_of_a_path"),
    6: _by(
        "one element with and without a slash; a relative path is refused",
        f"{_HERE}test_002_to_006_elements_of_a_path",
        "tests/unit/filesystem/test_magic_filesystem_files.py"
        "::test_path_that_is_not_absolute_is_refused_below_magic",
    ),
    7: _by(
        "what stands before and after a magic element at the root",
        f"{_HERE}test_007_to_010_parents_and_children",
    ),
    8: _by("a magic element at the end has nothing after it", f"{_HERE}test_007_to_010_parents_and_children"),
    9: _by("what stands before a magic element", f"{_HERE}test_007_to_010_parents_and_children"),
    10: _by("several elements on both sides", f"{_HERE}test_007_to_010_parents_and_children"),
    11: _by(
        "the last element; there is not one of an empty path",
        f"{_HERE}test_011_last_element",
        f"{_PATHS}test_magic_path_without_a_child_names_no_file",
    ),
    12: _by("an ordinary path leads to itself", f"{_PATHS}test_path_without_a_magic_element_is_ordinary"),
    13: _by(
        "an element after the magic one", f"{_PATHS}test_element_after_the_magic_one_lands_in_its_parent"
    ),
    14: _by(
        "without a base only the last element is kept",
        f"{_PATHS}test_without_base_only_the_last_element_is_kept",
    ),
    15: _by(
        "the same right under the bucket", f"{_PATHS}test_magic_at_the_root_of_the_bucket_lands_in_the_root"
    ),
    16: _by("a magic element alone names no file", f"{_PATHS}test_magic_path_without_a_child_names_no_file"),
    17: _by("a base right after the magic element", f"{_PATHS}test_base_right_after_the_magic_element"),
    18: _by("a base alone names no file", f"{_PATHS}test_base_as_the_last_element_names_no_file"),
    19: _by("all elements after a base are kept", f"{_PATHS}test_elements_after_base_are_kept"),
    20: _by(
        "a base before the magic element is an ordinary name",
        f"{_PATHS}test_base_before_the_magic_element_is_an_ordinary_name",
    ),
    21: _by("a second base is kept", f"{_PATHS}test_second_base_survives_in_the_destination"),
    22: _by("of two magic elements the first counts", f"{_PATHS}test_first_of_two_magic_elements_counts"),
    23: _by("the attempt is read from its path", f"{_LAYOUT}test_a_work_path_tells_its_job_task_and_attempt"),
    24: _by(
        "work paths hold the job, the attempt and a base",
        f"{_LAYOUT}test_layouts_follow_hadoop",
        f"{_LIFECYCLE}test_work_lies_where_the_layout_says",
    ),
}

_OF_UPLOADS: Final[dict[int, Behaviour]] = {
    25: _by("an ordinary path is not delayed", f"{_WRITING}test_every_way_to_write_elsewhere_is_untouched"),
    26: _by(
        "records of the committer are not delayed",
        f"{_PATHS}test_own_files_of_the_committer_are_ordinary_writes",
    ),
    27: _by(
        "an empty file that is aborted leaves neither record nor object",
        f"{_REMOVING}test_removed_file_is_aborted_and_both_its_objects_are_gone",
    ),
    28: _by(
        "an empty file has a marker of no length, and afterwards no header",
        f"{_LIFECYCLE}test_empty_file_is_published_with_no_bytes_and_no_header",
    ),
    29: _by(
        "the marker of a small file tells its size",
        f"{_LOOKING}test_length_is_told_as_hadoop_tells_it",
        f"{_LIFECYCLE}test_nothing_is_visible_before_the_job_commit_and_every_row_after",
    ),
    30: _by("aborting where nothing is succeeds", f"{_HERE}test_030_and_050_task_without_work_is_aborted"),
    31: _by(
        "the factory makes the magic committer",
        f"{_CONF}test_factory_comes_before_the_name",
        f"{_CONF}test_committer_by_name",
    ),
    32: _by("a path below a base lands below the destination", f"{_PATHS}test_elements_after_base_are_kept"),
    33: _by(
        "renaming a marker loses its header and leaves the upload",
        f"{_COPIES}test_what_was_renamed_is_published_with_what_it_was_opened_with",
        f"{_LOOKING}test_pending_file_cannot_be_copied_or_moved",
        otherwise="what is in hand is renamed as a file; all else is refused, so that no upload is lost",
    ),
    34: _by(
        "a staged empty file is one part, and progress is told once",
        f"{_LIFECYCLE}test_empty_file_is_published_with_no_bytes_and_no_header",
        f"{_STAGING}test_progress_is_told_after_every_part",
    ),
    35: _by("a staged small file", f"{_STAGING}test_one_file_is_one_upload_and_one_set_named_by_the_attempt"),
    36: _by(
        "a local file that is gone fails the task",
        f"{_STAGING}test_file_that_is_exchanged_while_the_task_commits_fails_it",
        f"{_STAGING}test_directory_that_is_removed_while_the_task_commits_fails_it",
    ),
    37: _by(
        "undoing deletes a file that is there, and minds none that is not",
        f"{_BAD}test_refused_complete_undoes_what_was_published",
        "tests/unit/test_recover.py::test_rollback_after_a_cut_at_any_request",
        otherwise="only what bears the upload's own write id is deleted",
    ),
    38: _by(
        "aborting uploads where there are none",
        "tests/unit/test_own_paths.py::test_discarded_files_leave_nothing_the_second_time_too",
    ),
    39: _not(
        "a stream of an ordinary file lacks the capability of magic streams",
        "files of fsspec cannot be asked for capabilities; MagicFileSystem.locate tells whether a path is "
        "delayed, and behaviours 12 and 25 show that",
    ),
    40: _by(
        "each commit shows its files, names with blanks too, and nothing shows before",
        f"{_EXAM_NAMES}test_file_of_any_name_is_published",
        f"{_LIFECYCLE}test_nothing_is_visible_before_the_job_commit_and_every_row_after",
        otherwise="files become visible by the job, not one by one",
    ),
    41: _by(
        "a record has its times and one ETag a part", f"{_DOCUMENTS}test_pending_file_describes_its_upload"
    ),
}

_OF_PROTOCOL: Final[dict[int, Behaviour]] = {
    42: _by(
        "a second job attempt works elsewhere; tasks cannot be recovered; its aborts leave no upload",
        f"{_ATTEMPTS}test_second_job_attempt_has_work_of_its_own",
        f"{_STAGED_JOBS}test_later_attempt_publishes_what_the_earlier_one_has_committed",
        f"{_STAGED_JOBS}test_magic_that_tracks_in_memory_cannot_recover",
        otherwise="a later attempt recovers tasks; tracking in memory refuses",
    ),
    43: _by(
        "the whole life of a job",
        f"{_JOB}test_task_that_wrote_needs_its_commit",
        f"{_LIFECYCLE}test_nothing_is_visible_before_the_job_commit_and_every_row_after",
        f"{_LIFECYCLE}test_success_file_names_the_job_its_files_and_its_statistics",
    ),
    44: _by(
        "the storage class reaches the object",
        "tests/integration/test_object_settings_s3.py::test_every_write_of_a_job_bears_what_it_was_told",
    ),
    45: _by("no task commits after its job", f"{_ATTEMPTS}test_nothing_can_be_committed_after_the_job"),
    46: _by(
        "of two committed attempts the second is published, and no upload stays",
        f"{_ATTEMPTS}test_of_two_committed_attempts_a_listing_takes_one",
        f"{_ATTEMPTS}test_of_two_committed_attempts_only_the_chosen_one_is_published",
        f"{_JVM_COMMITS}_of_two_attempts_the_last_committed_wins",
    ),
    47: _by(
        "a job commit that failed can be called again, one that succeeded cannot",
        f"{_JOB}test_store_that_is_silent_before_the_commit_point_changes_nothing",
        f"{_JOB}test_job_that_has_ended_says_so",
    ),
    48: _by("a task without output commits", f"{_LIFECYCLE}test_task_that_wrote_nothing_commits_nothing"),
    49: _by("output that is a directory of files", f"{_LIFECYCLE}test_partitions_nest_to_any_depth"),
    50: _by("a task without work is aborted", f"{_HERE}test_030_and_050_task_without_work_is_aborted"),
    51: _by("a job without work is aborted", f"{_HERE}test_051_job_without_work_is_aborted"),
    52: _by(
        "a task that has not committed is left out, and its uploads go",
        f"{_ATTEMPTS}test_stream_that_is_open_while_the_job_commits_publishes_nothing",
        f"{_ATTEMPTS}test_attempt_that_vanished_is_swept_by_the_job",
    ),
    53: _by(
        "aborting task and job leaves nothing",
        f"{_ABORTS}test_aborted_task_leaves_nothing",
        f"{_ABORTS}test_aborted_job_leaves_nothing",
    ),
    54: _by("aborts may be repeated", f"{_HERE}test_054_aborts_may_be_repeated"),
    55: _by("aborting the job alone takes its tasks along", f"{_ABORTS}test_aborted_job_leaves_nothing"),
    56: _by(
        "two tasks at once in one directory",
        f"{_FAMILY}test_nested_partitions_of_several_tasks_are_published",
        f"{_EXAM_NAMES}test_tasks_that_name_their_files_alike_do_not_meet",
    ),
    57: _by(
        "what an output format sees while it writes",
        f"{_LOOKING}test_listings_show_markers_as_empty_and_make_no_head",
        f"{_LIFECYCLE}test_work_lies_where_the_layout_says",
        f"{_LIFECYCLE}test_success_file_names_the_job_its_files_and_its_statistics",
    ),
    58: _by(
        "a task is aborted by another process's committer",
        f"{_ABORTS}test_task_is_aborted_by_another_committer",
    ),
    59: _by(
        "a job leaves uploads in neighbouring directories alone",
        f"{_NEIGHBOURS}test_jobs_at_destinations_of_similar_names_are_left_alone",
    ),
    60: _by("two jobs at one destination", f"{_NEIGHBOURS}test_two_jobs_at_one_destination_do_not_meet"),
    61: _by(
        "a generated id belongs to who set the job up",
        f"{_CONF}test_generated_id_is_a_uuid",
        f"{_JOB}test_task_that_was_set_up_in_another_process_is_not_committed_from_memory",
        otherwise="the id travels with the pickled job, so that other processes have it",
    ),
    62: _by("an id that is required and missing", f"{_CONF}test_missing_uuid_is_refused_if_it_is_required"),
    63: _by(
        "a committer by its name",
        f"{_CONF}test_committer_by_name",
        "tests/unit/test_committers.py::test_every_committer_has_its_row",
    ),
    64: _by(
        "a job removes its work, unless it shall not",
        f"{_LIFECYCLE}test_nothing_is_visible_before_the_job_commit_and_every_row_after",
        f"{_CONF}test_known_option_that_is_not_supported_is_refused",
        otherwise="that work stays cannot be asked for",
    ),
    65: _by(
        "without multipart uploads there is no such committer",
        f"{_JOB}test_store_without_multipart_uploads_is_refused_by_name",
        f"{_CONF}test_bucket_that_forbids_the_committer_is_refused",
    ),
}

_OF_FAULTS: Final[dict[int, Behaviour]] = {
    66: _by(
        "a PUT that fails at first",
        "tests/unit/test_retrying_store.py::test_passing_failure_is_waited_out",
        f"{_RETRIES}test_lasting_failure_costs_exactly_the_requests_of_the_table",
    ),
    67: _by(
        "a part that fails twice is sent again",
        f"{_UPLOAD}test_part_is_readable_again_until_it_is_acknowledged",
        "tests/unit/test_retrying_store.py::test_passing_failure_is_waited_out",
    ),
    68: _by(
        "parts and completes of a staged file that fail twice",
        "tests/unit/test_retrying_store.py::test_passing_failure_is_waited_out",
        f"{_RETRIES}test_error_in_an_answer_of_200_that_passes_is_waited_out",
    ),
    69: _by(
        "an interrupted close aborts the upload",
        f"{_UPLOAD}test_interrupt_while_writing_leaves_at_once_and_aborts",
    ),
    70: _by(
        "the first error is raised though the abort fails, too",
        f"{_UPLOAD}test_failing_abort_does_not_hide_the_first_error",
    ),
    71: _by(
        "any step of the committer may fail",
        "tests/unit/test_recover.py::test_recover_after_a_cut_at_any_request",
        "tests/unit/test_interrupts.py::test_ctrl_c_at_every_request_publishes_all_or_nothing_and_the_job_says_which",
    ),
    72: _by(
        "who may only read changes nothing",
        "tests/integration/test_recover_bad_input_s3.py::test_denied_writes_change_nothing",
        "tests/integration/test_recover_bad_input_s3.py::test_setup_where_writes_are_denied_leaves_nothing",
    ),
    73: _by(
        "cleaning up without the right to list uploads",
        f"{_RECOVERIES}test_job_does_its_work_without_the_right_to_list_uploads",
    ),
    74: _by(
        "a huge file",
        f"{_FAMILY}test_a_large_file_and_an_empty_one",
        f"{_UPLOAD}test_one_write_may_be_many_parts",
        f"{_JVM_COMMITS}_three_parts",
    ),
    75: _by(
        "open uploads without a magic directory disturb nobody who lists",
        f"{_NEIGHBOURS}test_uploads_and_objects_of_others_under_the_destination_stay",
        f"{_MODES}test_setup_tells_unfinished_jobs_and_pending_uploads",
    ),
    76: _by(
        "headers of objects",
        f"{_LOOKING}test_length_is_told_as_hadoop_tells_it",
        f"{_LOOKING}test_marker_with_a_garbled_length_has_its_own_size",
        "tests/unit/filesystem/test_magic_filesystem_file_options.py::TestCopies.test_copy_is_described_as_its_source",
    ),
}

_OF_STAGING: Final[dict[int, Behaviour]] = {
    77: _by("the id that Spark gives", f"{_CONF}test_committers_uuid_comes_before_sparks"),
    78: _by("a missing id is refused", f"{_CONF}test_missing_uuid_is_refused_if_it_is_required"),
    79: _by("the committer's own id comes first", f"{_CONF}test_committers_uuid_comes_before_sparks"),
    80: _by(
        "without an id the JobID",
        f"{_CONF}test_generated_id_is_a_uuid",
        otherwise="a random UUID: two jobs of one second share a JobID",
    ),
    81: _by("a generated id is a UUID", f"{_CONF}test_generated_id_is_a_uuid"),
    82: _by(
        "a buffer directory without a scheme is local, and attempts have the job's id in theirs",
        f"{_CONF}test_local_directory",
        f"{_STAGING}test_attempt_writes_in_a_local_directory_named_by_job_and_attempt",
    ),
    83: _by("two attempts have two directories", f"{_STAGING}test_two_attempts_have_two_directories"),
    84: _by("a buffer directory with its scheme", f"{_CONF}test_local_directory"),
    85: _by("a buffer directory that is not local", f"{_CONF}test_local_directory_that_is_none_is_refused"),
    86: _by(
        "where a committed task lies in the cluster",
        f"{_CLUSTER}test_committed_task_lies_where_hadoops_committer_puts_it",
    ),
    87: _by("one file", f"{_STAGING}test_one_file_is_one_upload_and_one_set_named_by_the_attempt"),
    88: _by("an empty file", f"{_LIFECYCLE}test_empty_file_is_published_with_no_bytes_and_no_header"),
    89: _by("three files", f"{_STAGING}test_three_files_keep_their_directories"),
    90: _by(
        "an upload that cannot be opened",
        f"{_STAGING}test_upload_that_cannot_be_opened_fails_the_task_and_aborts_the_others",
    ),
    91: _by(
        "a part of one file that cannot be sent",
        f"{_STAGING}test_part_that_cannot_be_sent_fails_the_task_and_aborts_all",
    ),
    92: _by(
        "a part of two files that cannot be sent",
        f"{_STAGING}test_part_that_cannot_be_sent_fails_the_task_and_aborts_all",
        f"{_STAGING}test_nothing_more_is_sent_after_a_failure",
    ),
    93: _by(
        "an abort that fails after a part",
        f"{_STAGING}test_abort_that_fails_is_a_note_and_the_first_error_is_raised",
    ),
    94: _by(
        "an aborted task has uploaded nothing",
        f"{_STAGING}test_abort_of_a_task_removes_its_directory_and_asks_nothing_of_the_store",
    ),
    95: _by("a job of four tasks", f"{_LIFECYCLE}test_all_tasks_are_published"),
    96: _by(
        "a job commit that fails amid its files takes all back",
        f"{_BAD}test_refused_complete_undoes_what_was_published",
    ),
    97: _by("an aborted job publishes nothing", f"{_ABORTS}test_aborted_job_leaves_nothing"),
    98: _by(
        "the cluster's directory is there from setup to commit",
        f"{_CLUSTER}test_directory_of_the_job_is_there_from_setup_to_commit",
    ),
    99: _by(
        "and goes after a commit that failed",
        f"{_CLUSTER}test_commit_that_was_taken_back_cleans_the_cluster_too",
    ),
}

_OF_MODES: Final[dict[int, Behaviour]] = {
    100: _by(
        "a mode that is none",
        f"{_CONF}test_unknown_conflict_mode_is_refused_with_the_choices",
        f"{_STAGED_JOBS}test_conflict_mode_that_is_none_is_refused_at_once",
    ),
    101: _by("without a mode append", f"{_CONF}test_conflict_mode"),
    102: _by(
        "fail looks at setup, and not again",
        f"{_CONFLICTS}test_fail_refuses_data_before_any_task_runs",
        f"{_CONFLICTS}test_fail_refuses_data_that_came_while_tasks_ran",
        otherwise="it looks again before the commit point",
    ),
    103: _by("append beside old data", _ONE_DESTINATION),
    104: _by(
        "replace deletes in the job commit",
        _ONE_DESTINATION,
        f"{_MODES}test_nothing_old_is_removed_before_everything_new_is_visible",
        otherwise="after everything new is visible, not before",
    ),
    105: _by(
        "replace where the destination is a file", f"{_FAMILY}test_destination_that_is_a_file_is_refused"
    ),
    106: _by(
        "append where the destination is a file",
        f"{_BAD}test_destination_that_is_a_file_is_refused",
        f"{_FAMILY}test_destination_that_is_a_file_is_refused",
    ),
    107: _by(
        "the default of the configuration is append",
        f"{_ORACLE}test_defaults_of_a_release_are_those_of_its_own_files",
    ),
    108: _by(
        "partitioned: a mode that is none", f"{_CONF}test_unknown_conflict_mode_is_refused_with_the_choices"
    ),
    109: _by("partitioned: without a mode append", f"{_CONF}test_conflict_mode"),
    110: _by(
        "partitioned: fail at the task commit",
        f"{_STAGED_JOBS}test_fail_refuses_a_touched_partition_at_the_task_commit",
        f"{_STAGED_JOBS}test_fail_minds_touched_partitions_only",
    ),
    111: _by("partitioned: append uploads everything", _ONE_DESTINATION),
    112: _by(
        "partitioned: replace deletes nothing at the task commit",
        f"{_MODES}test_nothing_old_is_removed_before_everything_new_is_visible",
    ),
    113: _by("partitioned: fail and append delete nothing", _ONE_DESTINATION),
    114: _by(
        "partitioned: replace takes touched partitions alone",
        f"{_MODES}test_overwrite_partitions_removes_what_lies_in_touched_partitions_only",
    ),
    115: _by(
        "partitioned: a delete that fails",
        f"{_STAGED_JOBS}test_replace_that_cannot_delete_is_published_and_says_so",
        otherwise="the new files are visible by then, so that it is a warning",
    ),
    116: _by(
        "only files count, at any depth",
        f"{_STAGING}test_three_files_keep_their_directories",
        f"{_STAGING}test_empty_directories_are_nothing",
    ),
    117: _by(
        "hidden names are left out",
        f"{_STAGING}test_a_files_own_name_decides_whether_it_is_left_out_as_in_hadoop",
    ),
    118: _by("partitions of paths", f"{_STAGED_JOBS}test_partitions_that_fail_minds"),
    119: _by(
        "the job's id in names",
        f"{_EXAM_NAMES}test_unique_name_carries_task_and_job_before_the_first_dot",
        "tests/unit/test_final_files.py::test_a_label_is_put_in_though_the_path_holds_the_job",
        f"{_CONF}test_cluster_directory",
        otherwise="a path that holds the id already is made unique all the same",
    ),
    120: _by(
        "many tasks, files and parts",
        f"{_SIZES}test_more_files_than_a_page_are_published_and_more_losers_are_swept",
        "tests/unit/formats/test_formats_pendingset.py::test_ten_thousand_commits_are_read_quickly",
        "tests/unit/formats/test_formats_success.py::test_at_most_a_hundred_file_names_are_written",
    ),
}

_OF_ENGINES: Final[dict[int, Behaviour]] = {
    121: _by(
        "which committer a configuration means",
        f"{_CONF}test_committer_by_name",
        f"{_CONF}test_no_name_is_the_file_committer",
        f"{_CONF}test_unknown_name_is_refused_with_the_choices",
        f"{_CONF}test_committers_do_not_see_options_of_a_bucket",
    ),
    122: _by(
        "a job by each committer: its files are those of _SUCCESS, and no work is left",
        f"{_LIFECYCLE}test_all_tasks_are_published",
        f"{_LIFECYCLE}test_success_file_names_the_job_its_files_and_its_statistics",
        f"{_JVM_COMMITS}_committed_by_the_jvm",
    ),
    123: _by(
        "the cluster's path of a staged job",
        f"{_CLUSTER}test_committed_task_lies_where_hadoops_committer_puts_it",
        f"{_CONF}test_cluster_directory",
    ),
    124: _not(
        "terasort",
        "a benchmark of MapReduce, whose jobs wait for the _SUCCESS of the one before; magicfs has no "
        "engine of its own, and behaviours 43 and 122 show what it leaves for the next job",
    ),
    125: _by(
        "each _SUCCESS is read by the manifest committer's class",
        f"{_ORACLE}test_success_of_ours_is_read_by_hadoop",
    ),
    126: _by(
        "all items are visited, by any number at once",
        f"{_ENGINE}test_no_more_than_the_given_number_run_at_once",
        f"{_ENGINE}test_every_kind_of_step_is_carried_out",
    ),
    127: _by("others go on after a failure", f"{_ENGINE}test_every_step_is_tried_if_failures_do_not_stop_it"),
    128: _by(
        "nothing begins after a failure",
        f"{_ENGINE}test_after_a_failure_nothing_starts_and_what_is_in_flight_is_waited_for",
    ),
    129: _by(
        "each failure is told once",
        f"{_ENGINE}test_observer_is_told_of_every_finished_step",
        f"{_ENGINE}test_failed_step_tells_its_error_and_what_is_known_of_it",
    ),
    130: _by(
        "what succeeded is undone, what did not begin is aborted",
        f"{_BAD}test_refused_complete_undoes_what_was_published",
        "tests/unit/test_recover.py::test_rollback_restores_the_old_state",
    ),
    131: _by(
        "a listing that fails",
        f"{_ENGINE}test_error_of_the_source_is_raised_after_what_is_in_flight",
        f"{_JOB}test_with_block_whose_listing_fails_aborts_and_raises_that",
    ),
    132: _by("nothing to do", f"{_ENGINE}test_source_of_nothing_ends_at_once"),
}

_OF_MANIFESTS: Final[dict[int, Behaviour]] = {
    133: _by(
        "setup of jobs and tasks, and again",
        f"{_TASKS}test_133_job_setup_makes_the_directory_of_manifests",
        f"{_TASKS}test_133_job_setup_again_takes_the_job_over",
        otherwise="a second setup takes the job over; a task has no setup of its own",
    ),
    134: _by(
        "no task commits after its abort",
        f"{_TASKS}test_134_a_task_of_an_aborted_job_is_denied_and_leaves_nothing",
    ),
    135: _by(
        "the last attempt of a task counts",
        f"{_TASKS}test_135_of_two_attempts_the_one_that_was_accepted_counts_or_else_the_last",
    ),
    136: _by(
        "the job commit and its validation",
        f"{_MANIFEST}test_136_job_commit_publishes_the_files_and_says_it",
        f"{_MANIFEST}test_136_success_names_at_most_a_hundred_files",
        f"{_MANIFEST}test_136_a_file_that_was_altered_since_its_commit_fails_the_job_without_success",
    ),
    137: _by(
        "cleaning up",
        f"{_MANIFEST}test_two_jobs_at_one_destination_at_once_publish_both",
        f"{_MANIFEST}test_tasks_of_an_earlier_attempt_of_the_job_are_recovered",
        otherwise="the work of the job alone, not of all jobs at the destination",
    ),
    138: _by(
        "the protocol with this committer; stores that copy are refused; an empty job",
        f"{_MANIFEST}test_138_a_store_that_copies_is_refused_with_the_reason",
        f"{_FAMILY}test_tasks_without_files_and_a_job_without_tasks",
    ),
    139: _by(
        "a task without a directory, and with an empty one",
        f"{_TASKS}test_139_an_attempt_without_a_directory_wrote_nothing",
    ),
    140: _by(
        "saving that fails up to its limit",
        f"{_TASKS}test_140_failing_one_time_less_than_the_limit_is_fine_and_counted",
        f"{_TASKS}test_140_a_task_whose_commit_is_not_answered_can_be_committed_again",
        f"{_TASKS}test_140_the_limit_is_an_option",
    ),
    141: _by(
        "an old manifest that cannot be deleted at first",
        f"{_TASKS}test_135_of_two_attempts_the_one_that_was_accepted_counts_or_else_the_last",
        otherwise="each attempt has a manifest of its own, and none takes the place of another",
    ),
    142: _by(
        "a temporary file that cannot be deleted at first",
        f"{_TASKS}test_140_failing_one_time_less_than_the_limit_is_fine_and_counted",
    ),
    143: _by(
        "a directory at the manifest's path",
        f"{_TASKS}test_a_second_commit_of_an_attempt_returns_the_first",
        otherwise="only the attempt itself writes there, once",
    ),
    144: _by(
        "a directory at the temporary path",
        f"{_TASKS}test_144_a_directory_at_the_temporary_path_is_replaced",
    ),
    145: _by(
        "one rename of a hundred fails", f"{_RENAMES}test_145_one_failure_of_a_hundred_stops_and_is_told"
    ),
    146: _by("a rename that is refused", f"{_RENAMES}test_146_a_refused_rename_says_which"),
    147: _by("a source that is missing", f"{_RENAMES}test_147_a_missing_source_is_never_found"),
    148: _by(
        "a target that is there",
        f"{_RENAMES}test_148_an_existing_target_is_replaced_unless_that_is_forbidden",
        f"{_RENAMES}test_148_a_lost_reply_is_recovered_by_the_etag",
        f"{_MANIFEST}test_files_of_equal_names_are_written_over_only_if_asked_for",
    ),
    149: _by(
        "ways to clean up, and how they fail",
        f"{_MANIFEST}test_work_that_cannot_be_removed_keeps_the_job_for_recover",
        f"{_MANIFEST}test_work_that_cannot_be_removed_may_be_ignored",
        f"{_MANIFEST}test_work_is_left_if_asked_for",
        otherwise="task attempts always go beside each other, and a failure keeps the job for recover",
    ),
    150: _by(
        "directories that are made",
        f"{_RENAMES}test_files_are_renamed_into_directories_that_are_made",
        f"{_RENAMES}test_a_directory_that_somebody_removes_in_between_is_made_again",
        f"{_MANIFEST}test_a_file_in_the_place_of_a_directory",
        otherwise="only those that files need: an empty directory of a task is not made",
    ),
    151: _by(
        "many manifests, in little memory",
        f"{_MANIFEST}test_151_more_than_200_manifests",
        "tests/unit/test_flat_memory.py::test_a_job_of_five_times_the_files_takes_no_more_memory",
    ),
    152: _by(
        "manifests that are right and wrong",
        "tests/unit/formats/test_formats_task_manifest.py::test_paths_with_blanks_and_everything_else_come_back",
        "tests/unit/formats/test_formats_task_manifest.py::test_two_files_of_one_destination_are_refused",
        "tests/unit/formats/test_laws.py::test_a_value_that_cannot_be_true_is_refused_by_name",
        "tests/unit/formats/test_laws.py::test_each_required_field_is_missed_by_name",
    ),
    153: _by(
        "the file of entries",
        f"{_MANIFEST}test_151_more_than_200_manifests",
        "tests/unit/test_facts.py::test_facts_are_chunks_of_a_thousand_files",
        otherwise="entries are facts of the job in its store, which any process can read, not a local file",
    ),
    154: _by(
        "reports of jobs",
        f"{_MANIFEST}test_154_a_report_of_a_job_is_kept",
        f"{_MANIFEST}test_154_a_report_of_a_failed_job_has_the_exception_and_the_stack_trace",
    ),
}

_OF_PORTS: Final[dict[int, Behaviour]] = {
    155: _by("both forms of ETags are read", f"{_PENDING}test_both_generations_of_etags_load"),
    156: _by(
        "unknown fields and a missing version are taken, another version is not",
        f"{_PENDING}test_only_five_fields_and_no_version_are_needed",
        f"{_PENDING}test_wrong_version_speaks_as_hadoop_does",
        "tests/unit/formats/test_laws.py::test_unknown_fields_are_kept_and_written_last",
        "tests/unit/formats/test_laws.py::test_another_format_is_refused",
    ),
    157: _by(
        "a set of another job is refused, one without a job is taken",
        f"{_BAD}test_altered_pending_set_publishes_nothing",
        f"{_DOCUMENTS}test_set_without_a_job_id_is_published",
    ),
    158: _by(
        "two tasks of one key: the last wins",
        "tests/unit/test_winners.py::test_key_of_two_tasks_is_refused_by_name",
        otherwise="refused before anything is changed",
    ),
    159: _by(
        "more than a thousand uploads: a thousand go",
        f"{_SIZES}test_job_with_more_uploads_than_a_page_is_aborted_whole",
        otherwise="all of the job's go",
    ),
    160: _by("a negative number of threads", f"{_CONF}test_threads"),
    161: _by(
        "hostile keys in URIs",
        "tests/unit/formats/test_formats_hadoop_uri.py::test_encodes_as_hadoops_path_does",
        "tests/unit/formats/test_formats_hadoop_uri.py::test_round_trip",
        f"{_EXAM_NAMES}test_destination_of_any_name_works",
    ),
    162: _by(
        "a job abort that purges nothing leaves uploads of committed tasks",
        f"{_ABORTS}test_aborted_job_leaves_nothing",
        f"{_JVM_COMMITS}_aborted_by_a_jvm_that_purges_nothing",
        otherwise="an abort of ours goes through the sets; after Hadoop's magicfs recover --abort does",
    ),
}

BEHAVIOURS: Final[dict[int, Behaviour]] = {
    **_OF_PATHS,
    **_OF_UPLOADS,
    **_OF_PROTOCOL,
    **_OF_FAULTS,
    **_OF_STAGING,
    **_OF_MODES,
    **_OF_ENGINES,
    **_OF_MANIFESTS,
    **_OF_PORTS,
}
"""All of them, by number."""
