"""Hypothesis strategies for what object stores are fed: hostile keys, bodies, metadata."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

KEY_BYTES_MAX = 1000
"""Bytes of the longest keys made here; S3 takes 1024, and a bucket's name may count."""

# Stores that keep elements as file names take 255 bytes of each.
_ELEMENT_BYTES_MAX = 200
_HOSTILE_ELEMENTS = (
    *("with space", " before", "after ", "tab\there", "a  b"),
    *("50%", "%2F", "%2f", "%", "%%", "a+b", "#1", "what?", "a&b=c", "year=2026", "it's", '"quoted"'),
    *("<tag>", "&amp;", "&#65;", "]]>", "a;b", "a,b", "a:b", "user@host", "$HOME", "!", "(x)", "[x]", "{x}"),
    *("*", "~", "^", "`", "|", "-", "--", "...", ".hidden", "_underscore", "UPPER", "upper"),
    *("zażółć", "日本語", "😀", "e\u0301", "\u00e9", "\u202eright", "ﬁ", "ß", "İ"),
    *("dataset1", "dataset10", "dataset1.", "part-0.parquet", "part-0.parquet.crc"),
)
HOSTILE_KEYS: tuple[str, ...] = (
    *_HOSTILE_ELEMENTS,
    *("dataset1/part", "dataset10/part", "dataset1/part/part", "dataset1 /part", "dataset1%2Fpart"),
    "/".join("x" * _ELEMENT_BYTES_MAX for _ in range(KEY_BYTES_MAX // (_ELEMENT_BYTES_MAX + 1) + 1))[
        :KEY_BYTES_MAX
    ],
    "/".join("ж" * (_ELEMENT_BYTES_MAX // 2) for _ in range(4)),
)
"""Keys that have broken clients and servers; all can exist side by side in one bucket."""


def leaves(keys: Iterable[str]) -> list[str]:
    """The keys below which no other of them lies: all of them can be files of one directory."""
    among = list(keys)
    return [key for key in among if not any(other.startswith(f"{key}/") for other in among)]


def elements() -> st.SearchStrategy[str]:
    """One element of a key: no slash, not empty, not ``.`` or ``..``, no control character but the tab.

    Backslashes are left out: Windows-minded servers take them for slashes, which has a test of its own.
    """
    characters = st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cn", "Co", "Cs", "Zl", "Zp"], exclude_characters="/\\"
    )
    random = st.text(characters | st.sampled_from(" \t%+#?&=\"'<>"), min_size=1, max_size=12)
    return (st.sampled_from(_HOSTILE_ELEMENTS) | random).filter(
        lambda element: element not in {".", ".."} and len(element.encode()) <= _ELEMENT_BYTES_MAX
    )


def keys() -> st.SearchStrategy[str]:
    """Keys of one to six elements, without empty ones."""
    joined = st.lists(elements(), min_size=1, max_size=6).map("/".join)
    return joined.filter(lambda key: len(key.encode()) <= KEY_BYTES_MAX)


def sibling_keys() -> st.SearchStrategy[list[str]]:
    """Several keys that share beginnings: ``dataset1``, ``dataset10`` and ``dataset1/part``."""
    few = st.lists(elements(), min_size=1, max_size=4, unique=True)

    def grown(names: list[str]) -> st.SearchStrategy[list[str]]:
        ends = st.sampled_from(("", "0", "/", "/part", " ", "%", "_"))
        paths = st.lists(st.sampled_from(names), min_size=1, max_size=3).map("/".join)
        return st.lists(
            st.builds(lambda path, end: f"{path}{end}".rstrip("/"), paths, ends),
            min_size=1,
            max_size=8,
            unique=True,
        )

    return few.flatmap(grown)


def bodies() -> st.SearchStrategy[bytes]:
    """Short bodies, the empty one among them."""
    return st.binary(max_size=300)


def metadata() -> st.SearchStrategy[dict[str, str]]:
    """User metadata as S3 takes it: lower-case names, printable ASCII without spaces at the ends."""
    names = st.from_regex(r"[a-z][a-z0-9]{0,10}(-[a-z0-9]{1,10}){0,3}", fullmatch=True)
    values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=40)
    return st.dictionaries(names, values.map(str.strip).filter(bool), max_size=4)
