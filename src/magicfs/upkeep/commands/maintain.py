"""``magicfs maintain URL``: what a dataset, or a whole bucket, needs now and then. Its parts are guests."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from magicfs.cli import guests
from magicfs.cli.guests import Part
from magicfs.cli.printing import AGAIN, Field, print_json, print_shown
from magicfs.cli.statuses import Status, worst
from magicfs.cli.storage import add_destination
from magicfs.runtime import registered
from magicfs.upkeep.policy import POINTS, read_policy

if TYPE_CHECKING:
    from magicfs.upkeep.places import Found

HELP = "delete expired files, compact manifests, bring catalogs up to date; safe at any time"
PLACE = ("maintain", 1)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="do what this TOML file says, for each dataset at and below URL, such as a whole bucket",
    )
    parser.add_argument(
        "--only",
        metavar="PART",
        action="append",
        choices=registered.names(POINTS),
        help=f"run only this part: {', '.join(registered.names(POINTS))}; may be repeated",
    )
    guests.configure(POINTS, parser)


def run(arguments: argparse.Namespace) -> int:
    """Do the parts, and print a line for each. Of several errors the first one decides the exit status."""
    if arguments.policy is not None:
        return _by_policy(arguments)
    parts = guests.run(POINTS, arguments, arguments.only or ())
    status = worst(one.status for one in parts)
    if arguments.json:
        print_json({"url": arguments.url, **{one.name: one.document for one in parts}})
    else:
        [lines, *more] = _shown(arguments.url, parts)
        print_shown([[*lines, *_again(arguments, status)], *more])
    return status


def _by_policy(arguments: argparse.Namespace) -> int:
    """Do what a policy says for each dataset; what fails for one keeps no other from being looked after."""
    from magicfs.datasets.connection import on_destination
    from magicfs.upkeep.places import find_datasets

    policy = read_policy(arguments.policy)
    only = [name for name in policy.parts if name in (arguments.only or policy.parts)]
    given = {**vars(arguments), **policy.arguments(only)}
    found = on_destination(find_datasets, arguments.url, arguments.storage_options, exclude=policy.exclude)
    done = [(one, _look_after(argparse.Namespace(**given | {"url": one.url}), one, only)) for one in found]
    status = worst(part.status for part in chain(*(parts for _, parts in done)))
    if arguments.json:
        head = {"url": arguments.url, "policy": arguments.policy, "dry_run": arguments.dry_run}
        print_json({**head, "datasets": [_document(*one) for one in done], "exit_status": status})
    else:
        print_shown([*chain(*(_shown(one.url, parts) for one, parts in done)), _again(arguments, status)])
    return status


def _document(place: Found, parts: Sequence[Part]) -> dict[str, object]:
    status = worst(part.status for part in parts)
    return {"url": place.url, "exit_status": status, **{part.name: part.document for part in parts}}


def _look_after(arguments: argparse.Namespace, place: Found, only: Sequence[str]) -> list[Part]:
    parts = guests.run(POINTS, arguments, only) if only else []
    kinds = [(part, _kind_of(part)) for part in parts]
    # Where only jobs work there is nothing yet to be maintained.
    kinds = [(part, kind) for part, kind in kinds if place.is_published or kind != "ObjectNotFound"]
    return [_put_off(part) if kind == "CommitDenied" else part for part, kind in kinds]


def _put_off(part: Part) -> Part:
    """A part for which a job was in the way: the next run does it."""
    return replace(part, line=part.line.replace("failed: ", "left for the next run: ", 1), status=Status.FINE)


def _kind_of(part: Part) -> str:
    document = part.document
    error = document.get("error") if isinstance(document, dict) else None
    return str(error.get("kind")) if isinstance(error, dict) else ""


def _shown(url: str, parts: Sequence[Part]) -> list[Sequence[Field]]:
    lines = [("dataset", url), *((one.name, one.line) for one in parts)]
    return [lines, *(block for one in parts for block in one.blocks)]


def _again(arguments: argparse.Namespace, status: int) -> Sequence[Field]:
    return [("next", AGAIN)] if arguments.dry_run and status == Status.FOUND else []
