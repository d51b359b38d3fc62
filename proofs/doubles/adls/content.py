"""What the double holds: containers, and in each a tree of directories and files.

Nothing here waits, and the server has one thread: so nothing comes between a condition and what it guards.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate

from proofs.doubles.adls.wire import Refusal

__all__ = ["Container", "Content", "Node", "SoftDeleted", "check_conditions"]

_BLOCKS_MAX = 50_000


@dataclass(slots=True)
class Node:
    """A directory, or a file. Of a file that was never committed there are only blocks."""

    is_directory: bool
    etag: str
    created: float
    modified: float
    body: bytes = b""
    metadata: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Headers that describe the content."""
    is_committed: bool = True
    blocks: dict[str, bytes] = field(default_factory=dict)
    """Those that are not committed."""
    tail: bytes = b""
    """What was appended and not flushed."""
    kept_until: float = 0.0
    """The end of its immutability policy."""
    has_legal_hold: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """What every answer about it says."""
        return {
            "ETag": self.etag,
            "Last-Modified": formatdate(self.modified, usegmt=True),
            "x-ms-creation-time": formatdate(self.created, usegmt=True),
        }


@dataclass(frozen=True, slots=True)
class SoftDeleted:
    """A file that was deleted or written over at ``gone``, and is kept for some days."""

    path: str
    node: Node
    gone: float
    days: int
    is_snapshot: bool


class Container:
    """One container: nodes by path. The parents of each are there, and are directories."""

    def __init__(self, name: str, content: Content) -> None:
        self.name = name
        self._content = content
        self.nodes: dict[str, Node] = {}
        self.deleted: list[SoftDeleted] = []
        self.made = content.node(is_directory=True)
        self.retention_s = 0
        """For how long its policy keeps each file; ``made`` has the legal hold of all."""

    def file(self, path: str) -> Node:
        """A file that somebody has committed."""
        node = self.nodes.get(path)
        if node is None or not node.is_committed or node.is_directory:
            raise Refusal(404, "BlobNotFound", "The specified blob does not exist.")
        return node

    def there(self, path: str) -> Node | None:
        """A directory, or a file that was committed."""
        node = self.nodes.get(path)
        return node if node is not None and node.is_committed else None

    def below(self, path: str) -> list[str]:
        """Paths below a directory."""
        prefix = f"{path}/" if path else ""
        return [name for name in self.nodes if name.startswith(prefix) and name != path]

    def children(self, path: str) -> Iterator[str]:
        """Paths of the entries of a directory."""
        prefix = f"{path}/" if path else ""
        return (name for name in self.below(path) if "/" not in name[len(prefix) :])

    def require_parents(self, path: str) -> None:
        """Make the directories above a path."""
        for parent in _parents(path):
            node = self.nodes.get(parent)
            if node is not None and not node.is_directory:
                raise _conflict()
            if node is None:
                self.nodes[parent] = self._content.node(is_directory=True)

    def make_directory(self, path: str) -> Node:
        """Make a directory, with its parents; one that is there stays."""
        self.require_parents(path)
        node = self.nodes.get(path)
        if node is None:
            node = self.nodes[path] = self._content.node(is_directory=True)
        if not node.is_directory:
            raise _conflict()
        return node

    def write(self, path: str, body: bytes, metadata: Mapping[str, str], settings: Mapping[str, str]) -> Node:
        """Put a file in the place of what is there; its blocks are gone."""
        self.require_no_directory(path)
        self.require_parents(path)
        held = self.there(path)
        if held is not None:
            self.check_may_go(held)
            self._let_go(path, held, is_snapshot=True)
        made = self._content.node(is_directory=False)
        made.created = held.created if held is not None else made.created
        made.body, made.metadata, made.settings = body, dict(metadata), dict(settings)
        self.nodes[path] = made
        return made

    def require_no_directory(self, path: str) -> None:
        """Refuse what only a file can be asked."""
        node = self.nodes.get(path)
        if node is not None and node.is_directory:
            problem = "The specified resource type is invalid for this operation: it is a directory."
            raise Refusal(409, "ResourceTypeMismatch", problem)

    def stage(self, path: str, block_id: str, body: bytes) -> None:
        """Keep a block that is not committed."""
        self.require_no_directory(path)
        if not body:
            raise Refusal(
                400, "InvalidHeaderValue", "The value for Content-Length is not in the correct format."
            )
        self.require_parents(path)
        node = self.nodes.get(path)
        if node is None:
            node = self.nodes[path] = self._content.node(is_directory=False)
            node.is_committed = False
        lengths = {len(one) for one in node.blocks}
        if lengths and lengths != {len(block_id)}:
            raise Refusal(400, "InvalidBlobOrBlock", "The specified blob or block content is invalid.")
        if len(node.blocks) >= 2 * _BLOCKS_MAX and block_id not in node.blocks:
            raise Refusal(409, "BlockCountExceedsLimit", "The uncommitted block count cannot exceed 100,000.")
        node.blocks[block_id] = body

    def commit(
        self, path: str, block_ids: list[str], metadata: Mapping[str, str], settings: Mapping[str, str]
    ) -> Node:
        """Make a file of blocks; all others are gone."""
        self.require_no_directory(path)
        if len(block_ids) > _BLOCKS_MAX:
            raise Refusal(400, "BlockListTooLong", "The block list may not contain more than 50,000 blocks.")
        node = self.nodes.get(path)
        blocks = node.blocks if node is not None else {}
        if any(one not in blocks for one in block_ids):
            raise Refusal(400, "InvalidBlockList", "The specified block list is invalid.")
        return self.write(path, b"".join(blocks[one] for one in block_ids), metadata, settings)

    def delete(self, path: str, *, recursive: bool) -> None:
        """Delete a file, or a directory."""
        node = self.nodes[path]
        below = self.below(path) if node.is_directory else []
        if not recursive and any(self.there(name) is not None for name in below):
            problem = "This operation is not permitted on a non-empty directory."
            raise Refusal(409, "DirectoryIsNotEmpty", problem)
        for name in [path, *below]:
            self.check_may_go(self.nodes[name])
        for name in [path, *below]:
            self._let_go(name, self.nodes.pop(name))

    def check_may_go(self, node: Node) -> None:
        """Refuse to change what a policy or a legal hold keeps."""
        if node.is_directory or not node.is_committed:
            return
        if node.has_legal_hold or self.made.has_legal_hold:
            problem = "This operation is not permitted as the blob is immutable due to a legal hold."
            raise Refusal(409, "BlobImmutableDueToLegalHold", problem)
        if time.time() < max(node.kept_until, node.created + self.retention_s):
            problem = "This operation is not permitted as the blob is immutable due to a policy."
            raise Refusal(409, "BlobImmutableDueToPolicy", problem)

    def _let_go(self, path: str, node: Node, *, is_snapshot: bool = False) -> None:
        if self._content.kept_days and node.is_committed and not node.is_directory:
            kept = SoftDeleted(path, node, time.time(), self._content.kept_days, is_snapshot)
            self.deleted.append(kept)

    def restore(self, path: str) -> None:
        """Make a file that was deleted one that is there."""
        found = [one for one in self.deleted if one.path == path and not one.is_snapshot]
        if found and self.there(path) is None:
            self.require_parents(path)
            self.nodes[path] = found[-1].node
            self.deleted.remove(found[-1])
        elif self.there(path) is None:
            raise Refusal(404, "BlobNotFound", "The specified blob does not exist.")

    def drop_blocks(self, path: str) -> None:
        """Forget the blocks that nobody has committed, as the service does after a week."""
        node = self.nodes.get(path)
        if node is not None and node.is_committed:
            node.blocks = {}
        elif node is not None:
            del self.nodes[path]

    def rename(self, source: str, path: str, *, if_absent: bool) -> Node:
        """Give a file or a directory with all below it another path, in one step."""
        node = self.there(source)
        if node is None:
            raise Refusal(404, "SourcePathNotFound", "The source path for a rename operation does not exist.")
        if path == source or path.startswith(f"{source}/"):
            raise Refusal(
                409, "InvalidRenameSourcePath", "The source directory cannot contain the destination."
            )
        parent = path.rpartition("/")[0]
        if parent and (parent not in self.nodes or not self.nodes[parent].is_directory):
            problem = "The parent directory of the destination path does not exist."
            raise Refusal(404, "RenameDestinationParentPathNotFound", problem)
        held = self.there(path)
        if held is not None and if_absent:
            raise Refusal(409, "PathAlreadyExists", "The specified path already exists.")
        if held is not None and held.is_directory != node.is_directory:
            problem = "The source and destination resource type must be identical."
            raise Refusal(409, "InvalidSourceOrDestinationResourceType", problem)
        moved = [source, *(self.below(source) if node.is_directory else [])]
        for name in moved:
            self.check_may_go(self.nodes[name])
        if held is not None:
            self.delete(path, recursive=False)
        self.nodes.pop(path, None)
        for name in moved:
            self.nodes[path + name[len(source) :]] = self.nodes.pop(name)
        return node


class Content:
    """All containers."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.kept_days = 0
        """For how many days the account keeps what is deleted or written over."""
        self._etags = itertools.count(0x8DE000000000000 + int(time.time() * 1000))

    def container(self, name: str) -> Container:
        """A container that is there."""
        if name not in self.containers:
            raise Refusal(404, "ContainerNotFound", "The specified container does not exist.")
        return self.containers[name]

    def add(self, name: str) -> Container:
        """Make a container."""
        if name in self.containers:
            raise Refusal(409, "ContainerAlreadyExists", "The specified container already exists.")
        self.containers[name] = Container(name, self)
        return self.containers[name]

    def etag(self) -> str:
        """One that nothing had before."""
        return f'"0x{next(self._etags):X}"'

    def node(self, *, is_directory: bool) -> Node:
        """A new node."""
        now = time.time()
        return Node(is_directory, self.etag(), now, now)


def check_conditions(headers: Mapping[str, str], held: Node | None, prefix: str = "") -> None:
    """Raise 412, or 409 or 304 for what was asked not to match, if a condition does not hold."""
    wanted = headers.get(f"{prefix}if-match", "")
    if wanted and (held is None or wanted not in {"*", held.etag}):
        raise Refusal(
            412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met."
        )
    unwanted = headers.get(f"{prefix}if-none-match", "")
    if unwanted == "*" and held is not None:
        raise Refusal(409, "BlobAlreadyExists", "The specified blob already exists.")
    if unwanted and held is not None and unwanted == held.etag:
        raise Refusal(
            412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met."
        )


def _parents(path: str) -> list[str]:
    names = path.split("/")[:-1]
    return ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def _conflict() -> Refusal:
    problem = "The path, or an element of it, exists and its resource type is invalid for this operation."
    return Refusal(409, "PathConflict", problem)
