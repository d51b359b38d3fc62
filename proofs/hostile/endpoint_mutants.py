"""Protections against a hostile endpoint, each taken out, and the lie that notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["ROWS"]

_SDK: Final = "s3 by aiobotocore"
_TERMINAL: Final = "words for a terminal"

ROWS: Final[Sequence[tuple[str, tuple[str, str, str], str, str, str]]] = (
    (
        "documents of any size are read",
        (
            "s3.requests.own",
            "size_max = DOCUMENT_BYTES_MAX + 1",
            "size_max = None",
        ),
        *("s3", "list", "spaces without end"),
    ),
    (
        "errors of any size are read",
        ("s3.http.answer", "self._size_max = ERROR_BYTES_MAX", "pass"),
        *("s3", "get", "an error without end"),
    ),
    (
        "others' clients read on for ever",
        ("undocumented", "if self._left < 0:", "if False:"),
        *("azure", "list", "spaces without end"),
    ),
    (
        "documents of GCS of any size are read",
        (
            "gcs.client",
            "allowed = DOCUMENT_BYTES_MAX + 1 if size_max is None else size_max",
            "allowed = 2**40 if size_max is None else size_max",
        ),
        *("gcs", "list", "spaces without end"),
    ),
    (
        "only silence is timed",
        (
            "s3.http.client",
            "elif one.busy_ticks * self._tick_s > one.patience_s + self._deadline_s(one.moved):",
            "elif False:",
        ),
        *("s3", "list", "a byte now and then"),
    ),
    (
        "only silence of a body is timed",
        (
            "undocumented",
            "if time.monotonic() - self._began > deadline_s(self._silence_s, self._size):",
            "if False:",
        ),
        *("gcs", "list", "a byte now and then"),
    ),
    (
        "headers may take for ever",
        ("undocumented", "async with asyncio.timeout(head_s):", "async with asyncio.timeout(None):"),
        *("azure", "list", "a header now and then"),
    ),
    (
        "a listing may go round",
        ("pages", "if place in self._seen:", "if False:"),
        *("gcs", "list", "the same page again"),
    ),
    (
        "pages may be empty for ever",
        ("pages", "if page.is_empty and self._empty >= _EMPTY_MAX:", "if False:"),
        *("s3", "list", "empty pages without end"),
    ),
    (
        "keys may lie elsewhere",
        ("pages", "if not name_of(entry).startswith(prefix):", "if False:"),
        *("s3", "list", "keys elsewhere"),
    ),
    (
        "uploads of Azure may lie elsewhere",
        ("azure.requests", "if any(not entry.name.startswith(prefix) for entry in found):", "if False:"),
        *("azure", "list_uploads", "keys elsewhere"),
    ),
    (
        "any document is a listing",
        ("s3.requests.answer", "if _name(root) not in (names := root_names(operation.name)):", "if False:"),
        *("s3", "list", "another document"),
    ),
    (
        "any document is a listing for aiobotocore",
        ("s3.client", "check_root(content, *names)", "pass"),
        *(_SDK, "list", "another document"),
    ),
    (
        "an answer that must be empty may be anything",
        ("s3.client", "elif content:", "elif False:"),
        *(_SDK, "delete_matching", "another document"),
    ),
    (
        "any object is a listing of GCS",
        ("gcs.errors", 'if kind and found.get("kind") != kind:', "if False:"),
        *("gcs", "list", "another object"),
    ),
    (
        "any document is a list of blocks",
        ("azure.errors", "check_root(body, name)", "pass"),
        *("azure", "complete_upload", "another document"),
    ),
    (
        "sizes may be anything that Python reads",
        ("answer_rules", "if text is None or not _NUMBER.fullmatch(text):", "if text is None:"),
        *("s3", "list", "sizes that Python reads"),
    ),
    (
        "what every answer has may be missing",
        ("s3.requests.answer", 'if answer.get(name, "") == "":', "if False:"),
        *("s3", "put", "nothing at all"),
    ),
    (
        "the endpoint's clock is signed",
        ("s3.requests.own", "if abs(skew) > _SKEW_S_MAX:", "if False:"),
        *("s3", "put", "a clock of another year"),
    ),
    (
        "aiohttp follows redirects",
        (
            "s3.client",
            "return self._session.request(method, **how, allow_redirects=False)",
            "return self._session.request(method, **how)",
        ),
        *(_SDK, "get", "a redirect, 307"),
    ),
    (
        "the SDK of Azure follows redirects",
        (
            "azure.requests",
            '"permit_redirects": False,  # a request is signed for one account',
            '"permit_redirects": True,',
        ),
        *("azure", "get", "a redirect, 307"),
    ),
    (
        "documents may define entities",
        (
            "answer_rules",
            'if b"\\0" in body or b"<!DOCTYPE" in body or b"<!ENTITY" in body:',
            "if False:",
        ),
        *("s3", "list", "entities"),
    ),
    (
        "elements are not counted",
        ("answer_rules", 'if body.count(b"<") > tags_max:', "if False:"),
        *("s3", "list", "elements without number"),
    ),
    (
        "words are not made printable",
        (
            "answer_rules",
            'shown = "".join(map(_printable, line))',
            "shown = line",
        ),
        *("azure", "put", _TERMINAL),
    ),
    (
        "words are not cut",
        (
            "answer_rules",
            'return shown if len(shown) <= _WORDS_MAX else f"{shown[: _WORDS_MAX - 1]}…"',
            "return shown",
        ),
        *("s3", "put", _TERMINAL),
    ),
    (
        "times may be none of a calendar",
        (
            "s3.versions",
            "if not is_moment(found):",
            "if False:",
        ),
        *("s3", "list", "time '9999-12-31T23:59:59-23:59'"),
    ),
    (
        "times that overflow come out",
        (
            "s3.requests.answer",
            "except (ValueError, ArithmeticError, LookupError, TypeError):",
            "except ValueError:",
        ),
        *("s3", "head", "header of time 'Mon, 01 Jan 2024 00:00:00 +99999'"),
    ),
    (
        "what a page lacks comes out",
        ("pages", "except (Malformed, *NOT_READ) as error:", "except Malformed as error:"),
        *("gcs", "list", "no generations"),
    ),
    (
        "other bytes than those asked for are taken",
        ("answer_rules", 'if not given.startswith(f"bytes {start}-"):', "if False:"),
        *("s3", "get_range", "other bytes"),
    ),
    (
        "a blob may have no ETag",
        ("azure.requests", "if not isinstance(etag, str) or not etag:", "if False:"),
        *("azure", "head", "no ETag"),
    ),
)
"""Name, module and lines, and the client, operation and lie that must come to a violation."""
