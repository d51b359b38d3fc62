"""``magicfs policy URL --role ROLE``: the permissions of a role, for AWS, Google Cloud or Azure."""

from __future__ import annotations

import argparse
import json

from magicfs.cli.printing import print_json, write_line

HELP = "print the least permissions of a worker, driver, reader or operator, as JSON"
PLACE = ("look", 9)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    from magicfs.policy.uses import USES

    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--role", choices=[*USES], required=True, help="who needs the permissions")
    parser.add_argument(
        "--versions", action="store_true", help="S3: the bucket keeps versions, and this role uses them"
    )
    parser.add_argument("--kms", metavar="ARN", help="S3: the KMS key that encrypts the objects")
    parser.add_argument(
        "--partition", default="aws", help="S3: partition of the ARNs, such as aws-cn; default: aws"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print them; nothing is asked of the store. Returns 0."""
    from magicfs.policy import policies

    asked = {"kms": arguments.kms, "versions": arguments.versions, "partition": arguments.partition}
    document = policies.policy(arguments.url, arguments.role, **asked)
    if arguments.json:
        print_json(document)
    else:
        write_line(json.dumps(document, indent=2))
    return 0
