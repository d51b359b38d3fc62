"""Where test servers are known to break the contract of the store port, and what doubles are known to lack.

No row may stand for ``memory``, which is the definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from magicfs.stores.conditions import Conditions
from magicfs.testing.store_exam import Deviation

__all__ = ["DEVIATIONS", "HONOURED", "LEFT_OUT", "OTHERWISE", "OfTheTables"]


_MINISTACK = (
    Deviation(
        "test_complete_with_a_small_part_before_the_last_leaves_the_upload_pending",
        "ministack",
        "takes parts of any size",
        r"Failed: DID NOT RAISE StoreError",
    ),
)
_MOTO = tuple(
    Deviation(test, "moto", what, seen)
    for test, what, seen in (
        (
            "test_part_of_an_aborted_upload_is_upload_not_found",
            "answers 500 for an upload that it does not know",
            r"Unavailable: put_part .* \(500 ",
        ),
        (
            "test_part_of_a_completed_upload_is_upload_not_found",
            "answers 500 for an upload that it does not know",
            r"Unavailable: put_part .* \(500 ",
        ),
        (
            "test_complete_after_abort_is_upload_not_found",
            "answers 500 for an upload that it does not know",
            r"Unavailable: complete_upload .* \(500 ",
        ),
        (
            "test_complete_of_an_upload_that_was_never_opened_is_upload_not_found",
            "answers 500 for an upload that it does not know",
            r"Unavailable: complete_upload .* \(500 ",
        ),
        (
            "test_second_complete_does_not_undo_a_later_write",
            "answers 500 for an upload whose object has another ETag by now",
            r"Unavailable: complete_upload .* \(500 ",
        ),
        (
            "test_second_complete_does_not_undo_a_later_delete",
            "answers 500 for an upload whose object is gone",
            r"Unavailable: complete_upload .* \(500 ",
        ),
        (
            "test_complete_under_another_key_is_upload_not_found",
            "looks at the upload id alone",
            r"Failed: DID NOT RAISE UploadNotFound",
        ),
        (
            "test_abort_under_another_key_leaves_the_upload_pending",
            "looks at the upload id alone",
            r"AssertionError: the upload is gone",
        ),
        (
            "test_upload_is_dated_when_it_was_opened",
            "dates every upload 2010-11-10",
            r"AssertionError: the upload is said to be [45]\d{8} s old",
        ),
        (
            "test_delete_all_matching_leaves_other_objects_and_names_them",
            "does not look at ETags when it deletes in bulk",
            r"AssertionError: left \[\]",
        ),
    )
)
_SEAWEEDFS = (
    Deviation(
        "test_complete_where_objects_lie_below_the_key",
        "seaweedfs",
        "takes the key for a directory, most times; a PUT would be accepted",
        r"Unavailable: complete_upload .* \(500 InternalError\)",
        always=False,
    ),
    *(
        Deviation(test, "seaweedfs", what, seen)
        for test, what, seen in (
            (
                "test_part_that_was_replaced_cannot_be_completed",
                "keeps both parts, and the old ETag completes the old bytes",
                r"Failed: DID NOT RAISE StoreError",
            ),
            (
                "test_reading_a_name_that_ends_with_a_slash_is_object_not_found",
                "shows directories as objects",
                r"Failed: DID NOT RAISE ObjectNotFound",
            ),
            (
                "test_put_makes_of_a_body_what_an_upload_makes_of_it",
                "guesses a content type of what is put, and none of what is uploaded",
                r"AssertionError: put as .*text/plain.*, uploaded as .*octet-stream",
            ),
            (
                "test_key_of_one_element_of_1000_bytes_is_kept",
                "takes 255 bytes of an element",
                r"StoreError: put .* \(400 KeyTooLongError\)",
            ),
            (
                "test_key_with_empty_elements_is_kept_apart",
                "takes two slashes for one",
                r"AssertionError: listed as \['a/b'\]",
            ),
            (
                "test_key_with_a_backslash_is_kept_apart",
                "takes a backslash for a slash",
                r"AssertionError: listed as \['a/b'\]",
            ),
            (
                "test_key_that_ends_with_a_slash_is_kept_apart",
                "takes the key for a directory",
                r"AssertionError: listed as \['a'\]",
            ),
            (
                "test_put_if_match_into_an_unknown_bucket_is_object_not_found",
                "looks at the condition before the bucket",
                r"PreconditionFailed: put .* \(412 PreconditionFailed\)",
            ),
            (
                "test_missing_object_with_objects_below_its_key_counts_as_deleted",
                "deletes in bulk as if the directory were an object with another ETag",
                r"AssertionError: left \['a'\]",
            ),
        )
    ),
)

_AZURITE = tuple(
    Deviation(test, "azurite", what, seen)
    for test, what, seen in (
        (
            "test_put_drops_the_uploads_of_its_key",
            "keeps the blocks of a key that a PUT replaces",
            r"Failed: DID NOT RAISE UploadNotFound",
        ),
        (
            "test_put_if_absent_writes_where_an_upload_is_pending",
            "takes blocks that nobody sees for an object",
            r"ObjectExists: put .* \(409 BlobAlreadyExists\)",
        ),
        (
            "test_key_with_a_backslash_is_kept_apart",
            "takes a backslash for a slash",
            r"AssertionError: listed as \['a/b'\]",
        ),
    )
)

_500 = r"Unavailable: complete_upload .* \(500 "
_UNKNOWN = "answers 500 for an upload that it does not know"
_CEPH = tuple(
    Deviation(test, "ceph", what, seen)
    for test, what, seen in (
        ("test_complete_after_abort_is_upload_not_found", _UNKNOWN, _500),
        ("test_complete_of_an_upload_that_was_never_opened_is_upload_not_found", _UNKNOWN, _500),
        ("test_complete_under_another_key_is_upload_not_found", _UNKNOWN, _500),
        ("test_second_complete_does_not_undo_a_later_delete", _UNKNOWN, _500),
        ("test_second_complete_does_not_undo_a_later_write", _UNKNOWN, _500),
        (
            "test_complete_takes_exactly_the_parts_that_it_names",
            "wants all parts to be named that were sent",
            r"StoreError: complete_upload .* \(400 InvalidPart\)",
        ),
        (
            "test_complete_with_a_small_part_before_the_last_leaves_the_upload_pending",
            "wants all parts to be named that were sent",
            r"StoreError: complete_upload .* \(400 InvalidPart\)",
        ),
        (
            "test_delete_all_matching_leaves_other_objects_and_names_them",
            "does not look at ETags when it deletes",
            r"AssertionError: left \[\]",
        ),
        (
            "test_delete_matching_leaves_another_object",
            "does not look at ETags when it deletes",
            r"Failed: DID NOT RAISE PreconditionFailed",
        ),
        (
            "test_hostile_keys_are_completed_as_they_were_named",
            "answers 500 for an upload of a key of 1,024 bytes",
            _500,
        ),
    )
)

# As the service does where the hierarchical namespace is on: a name is a path of files and directories.
_PATHS = r"PathConflict|ResourceTypeMismatch|DirectoryIsNotEmpty"
_ADLS = (
    *(
        Deviation(test, "adls", "a name is a path: nothing lies below the name of a file", _PATHS)
        for test in (
            "test_complete_where_objects_lie_below_the_key",
            "test_copies_go_below_an_object_and_onto_a_name_with_objects_below",
            "test_deleted_objects_are_gone_and_their_neighbours_are_not",
            "test_deletes_leave_objects_below_a_name",
            "test_hostile_keys_with_objects_below_them_live_side_by_side",
            "test_object_and_objects_below_its_name_live_side_by_side",
            "test_object_is_listed_beside_objects_below_its_name",
            "test_uploads_are_found_by_any_beginning_of_their_keys",
            "test_uploads_of_hostile_keys_are_listed_as_they_were_named",
        )
    ),
    Deviation(
        "test_key_that_ends_with_a_slash_is_kept_apart",
        "adls",
        "a name is a path: a slash at its end is nothing",
        r"AssertionError: listed as \['a'\]",
    ),
)

DEVIATIONS: Mapping[str, tuple[Deviation, ...]] = {
    "ministack": _MINISTACK,
    "moto": _MOTO,
    "seaweedfs": _SEAWEEDFS,
    "gcs": (),
    "gcs with folders": (),
    "azurite": _AZURITE,
    "adls": _ADLS,
    "ceph": _CEPH,
    "local": (),
}
"""The tables by the name of their server."""

HONOURED: Mapping[str, Conditions] = {
    "memory": Conditions(),
    "ministack": Conditions(),
    "moto": Conditions(bulk_delete=False),
    "seaweedfs": Conditions(),
    "gcs": Conditions(complete_if_absent=False),
    "gcs with folders": Conditions(complete_if_absent=False),
    "azurite": Conditions(),
    "adls": Conditions(),
    "ceph": Conditions(put_if_match=False, delete=False, bulk_delete=False, complete_if_absent=False),
    "local": Conditions(put_if_match=False),
}
"""What each subject of the exam honours; the exam fails where ``stores.conditions`` finds something else."""

OTHERWISE: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("fake-gcs-server", "gcs"): {
        "delete": "answers with the text null",
        "delete its generation": "answers with the text null",
        "delete another generation": "deletes it",
        "read another generation": "reads it",
    },
    ("azurite", "adls"): {
        "a body that is not as it was sent": "gives it the code InvalidOperation",
    },
}
"""What servers of others do otherwise than our doubles, by server, double and what both are asked."""

LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "gcs": (
        "it keeps everything in memory: a restart loses it",
        "it knows no roles: one token opens all, and so does none where the bucket is not private",
        "it renames a folder at once, where the service refuses writes below while it works",
        "it keeps old generations only where a bucket has soft delete: no versions",
        "it carries out no lifecycle rule: uploads that nobody completes stay",
        "it never throttles or fails by itself; `fault_proxy` does that",
        "it has no gRPC, so no objects of Rapid buckets",
        "its XML API has objects and uploads alone: no list of objects, no buckets, no signed URLs",
    ),
    "adls": (
        "it keeps everything in memory: a restart loses it",
        "it does not check the signature of a key or of a SAS token: anyone who names its account gets in",
        "it knows no roles: one bearer token opens all, and a SAS token opens all, also after its end",
        "it keeps no ACLs, owners or permissions: it always reports the same ones",
        "it has block blobs alone, and of them no leases, versions or tiers, and no snapshots to ask for",
        "it lets blocks expire only when a test says so, where the service drops them after seven days",
        "it takes appended data in order alone, and does not name committed blocks again",
        "it renames within one filesystem, and in one answer, however much lies below",
        "it never throttles or fails by itself; `fault_proxy` does that",
    ),
}
"""What the doubles do not do, and the services do."""


class OfTheTables:
    """A subject of the store exam whose deviations and conditions stand in the tables."""

    subject: ClassVar[str]

    @classmethod
    def deviations(cls) -> Sequence[Deviation]:
        """The rows of the subject in ``DEVIATIONS``."""
        return DEVIATIONS.get(cls.subject, ())

    @property
    def honoured(self) -> Conditions:
        """What the subject honours, as ``HONOURED`` has it; by default everything."""
        return HONOURED.get(self.subject, Conditions())
