"""What keeps files of the double: soft delete of the account, immutability policies and legal holds.

It follows Microsoft's reference of "Set Blob Service Properties", "Undelete Blob", "Set Blob Immutability
Policy" and "Set Blob Legal Hold". Here such a policy of one blob refuses every change, as that of a whole
container does. Policies of containers are set by the account's management, which the double does not have:
``comp=double`` stands for it, and for time that passes.
"""

from __future__ import annotations

import datetime as dt
from email.utils import formatdate, parsedate_to_datetime
from typing import Final
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from proofs.doubles.adls.content import Container, Content, Node, SoftDeleted
from proofs.doubles.adls.wire import Refusal, Request, xml_answer
from proofs.doubles.double_server import Answer

__all__ = ["KEEPING", "of_account", "of_blob", "of_container", "shown_deleted"]

KEEPING: Final = frozenset({"immutabilityPolicies", "legalhold", "undelete"})
"""What is asked of a blob here."""


def of_account(content: Content, request: Request) -> Answer:
    """Answer what is asked of the properties of the service."""
    if request.method == "PUT":
        told = ET.fromstring(request.body).find("DeleteRetentionPolicy")  # noqa: S314 - a test's own
        if told is not None:
            enabled = told.findtext("Enabled") == "true"
            content.kept_days = int(told.findtext("Days", "0")) if enabled else 0
        return Answer(202)
    policy = f"<Enabled>{str(content.kept_days > 0).lower()}</Enabled>"
    policy += f"<Days>{content.kept_days}</Days>" if content.kept_days else ""
    return xml_answer(
        "<StorageServiceProperties>"
        f"<DeleteRetentionPolicy>{policy}</DeleteRetentionPolicy></StorageServiceProperties>"
    )


def of_container(container: Container, request: Request) -> Answer:
    """Do what the account's management does, or time."""
    if (dropped := request.query.get("drop")) is not None:
        container.drop_blocks(dropped)
    container.retention_s = request.number("retention", container.retention_s)
    if "legalhold" in request.query:
        container.made.has_legal_hold = request.query["legalhold"] == "true"
    return Answer(200)


def of_blob(container: Container, request: Request) -> Answer:
    """Answer what is asked of a blob's policy or hold, or of one that was deleted."""
    if request.query["comp"] == "undelete":
        container.restore(request.name)
        return Answer(200)
    node = container.file(request.name)
    if request.query["comp"] == "legalhold":
        node.has_legal_hold = request.headers.get("x-ms-legal-hold") == "true"
    elif request.method == "DELETE":
        node.kept_until = 0.0
    else:
        until = request.headers.get("x-ms-immutability-policy-until-date", "")
        try:
            node.kept_until = parsedate_to_datetime(until).timestamp()
        except ValueError:
            raise Refusal(400, "InvalidHeaderValue", f"This is no date: {until}") from None
    return Answer(200, headers=_of_node(node))


def _of_node(node: Node) -> dict[str, str]:
    told = {"x-ms-legal-hold": str(node.has_legal_hold).lower()}
    if node.kept_until:
        told["x-ms-immutability-policy-until-date"] = formatdate(node.kept_until, usegmt=True)
        told["x-ms-immutability-policy-mode"] = "unlocked"
    return told


def shown_deleted(container: Container, prefix: str) -> str:
    """The entries of a listing that are about files which are gone."""
    found = sorted(
        (one for one in container.deleted if one.path.startswith(prefix)), key=lambda one: one.path.encode()
    )
    return "".join(map(_entry, found))


def _entry(one: SoftDeleted) -> str:
    snapshot = dt.datetime.fromtimestamp(one.gone, dt.UTC).isoformat()
    return (
        f"<Blob><Name>{escape(one.path)}</Name><Deleted>true</Deleted>"
        f"{f'<Snapshot>{snapshot}</Snapshot>' if one.is_snapshot else ''}<Properties>"
        f"<Content-Length>{len(one.node.body)}</Content-Length><BlobType>BlockBlob</BlobType>"
        f"<DeletedTime>{formatdate(one.gone, usegmt=True)}</DeletedTime>"
        f"<RemainingRetentionDays>{one.days}</RemainingRetentionDays></Properties></Blob>"
    )
