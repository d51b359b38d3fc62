"""Which cloud a URL belongs to, and what its names may hold."""

from __future__ import annotations

from magicfs.errors import UsageError
from magicfs.policy import aws, azure, gcs
from magicfs.policy.places import Destination, Document
from magicfs.policy.uses import USES
from magicfs.protocol.paths import parse_url


def policy(
    url: str, role: str, *, kms: str | None = None, versions: bool = False, partition: str = "aws"
) -> Document:
    """The least permissions of a role.

    Args:
        url: The destination.
        role: ``worker``, ``driver``, ``reader`` or ``operator``. A driver may also run tasks.
        kms: On S3, the ARN of the key that encrypts the objects.
        versions: On S3, whether the role uses object versions.
        partition: On S3, the partition of the ARNs.

    Raises:
        UsageError: The store has no policies, or they cannot name this destination.
    """
    if role not in USES:
        raise UsageError(f"role={role!r} is unknown; choose one of {', '.join(USES)}")
    location = parse_url(url)
    place = Destination(location.bucket, location.key)
    if not place.key.isprintable():
        raise UsageError(f"{url!a} has a character that a policy cannot contain; choose another destination")
    match location.scheme:
        case "s3" | "s3a":
            return aws.policy(place, role, kms=kms, versions=versions, partition=partition)
        case "gs" | "gcs":
            made = gcs.policy(place, role)
        case "abfs" | "abfss" | "az":
            made = azure.policy(place, role)
        case _:
            raise UsageError(
                f"{location.scheme}:// has no policies; give an s3://, gs:// or abfs:// URL, or use the "
                "permissions of the machine's files"
            )
    if kms is not None or versions or partition != "aws":
        raise UsageError("--kms, --versions and --partition are for s3:// URLs; leave them out")
    return made
