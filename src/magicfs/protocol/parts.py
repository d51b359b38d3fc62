"""How a stream of unknown length is cut into parts.

A multipart upload has a limited number of parts, and the length is not known when the first one is sent.
So parts keep their first size for a tenth of the limit and then double after every further tenth: with
8 MiB parts and S3's 10,000 the stream may grow to 7.8 TiB, while all but huge files see one size only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from magicfs.errors import StoreError, UsageError

# A stream holds a few parts in memory and users open many files; S3 gains little from larger parts.
DEFAULT_PART_SIZE = 8 * 2**20
COPY_MAX = 5 * 2**30
"""Bytes of the largest object that CopyObject takes (Amazon S3 API reference, "CopyObject")."""

COPY_PART = 512 * 2**20
"""Bytes of a part of a larger object; more where there would be too many of them."""
_STEPS = 10


@dataclass(frozen=True, slots=True)
class PartLimits:
    """What a store allows; sizes in bytes."""

    size_min: int = 5 * 2**20  # smallest part that is not the last
    size_max: int = 5 * 2**30
    count_max: int = 10_000
    object_max: int = 50 * 10**12
    equal_sizes: bool = False  # whether all parts but the last must have one size (Cloudflare R2)

    def check(self, part_size: int) -> None:
        """Raise UsageError for a part size that the store would refuse."""
        if not self.size_min <= part_size <= self.size_max:
            raise UsageError(
                f"part_size={part_size} is outside the limits of the store; choose between {self.size_min} "
                f"and {self.size_max} bytes"
            )


def part_size(number: int, first: int, limits: PartLimits) -> int:
    """Size in bytes that part ``number`` (from 1) should be filled to, given the size of the first.

    Raises UsageError if the upload would need more parts than the store allows.
    """
    if number > limits.count_max:
        raise UsageError(
            f"the file needs more than {limits.count_max} parts of {first} bytes or more; "
            "write it again with a larger part_size"
        )
    if limits.equal_sizes:
        return first
    doublings = (number - 1) * _STEPS // limits.count_max
    return min(first << doublings, limits.size_max)


def part_size_early(number: int, first: int, limits: PartLimits) -> int:
    """Size in bytes from which part ``number`` of a stream is sent, although it may be filled further.

    The first one sets out early where nobody has chosen a size: most files are a few parts at most, and the
    store would have nothing to do until they are closed, all at once.
    """
    if number > 1 or first != DEFAULT_PART_SIZE or limits.equal_sizes:
        return part_size(number, first, limits)
    return min(first, max(limits.size_min, first // 2))


def part_size_min(number: int, first: int, limits: PartLimits) -> int:
    """Size in bytes from which part ``number`` may be sent although more is to come, where memory is short.

    Only the first parts may be smaller than planned: the others have to carry what a file may grow to.
    """
    if limits.equal_sizes or (number - 1) * _STEPS >= limits.count_max:
        return part_size(number, first, limits)
    return min(first, limits.size_min)


def even_part_size(length: int, first: int, limits: PartLimits) -> int:
    """Size in bytes of all parts but the last of an object whose length (in bytes) is known.

    It is ``first``, or more where there would be too many parts. Raises UsageError if the object is larger
    than the store allows.
    """
    size = max(first, -(-length // limits.count_max))
    if length > limits.object_max or size > limits.size_max:
        largest = min(limits.object_max, limits.size_max * limits.count_max)
        raise UsageError(f"a file of {length} bytes is larger than {largest}; write several files")
    return size


def check_order(numbers: Sequence[int], path: str) -> None:
    """Raise StoreError for the numbers of parts that no upload is completed with."""
    if not numbers or list(numbers) != sorted(set(numbers)):
        raise StoreError("complete_upload", path, "parts must be named once each, in ascending order")


def check_number(operation: str, bucket: str, keys: Sequence[str], most: int) -> None:
    """Raise StoreError for more keys than one request takes."""
    if len(keys) > most:
        problem = f"{len(keys)} keys are too many for one request"
        raise StoreError(operation, f"{bucket}/{keys[0]}", problem)
