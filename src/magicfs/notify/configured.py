"""Notifications that the operator of this machine has configured, in a file of TOML.

::

    [sales]
    kind = "webhook"
    url = "https://hooks.example/sales"
    secret_headers = { Authorization = "SALES_TOKEN" }    # the name of an environment variable

    [lineage]
    kind = "openlineage"
    url = "https://marquez.example"
    job = "sales.publish"

    ["sales.hooks:loaded"]
    kind = "function"                                     # its name says where it is
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import Final

from magicfs.errors import UsageError
from magicfs.notify.notifiers import Function, Notifier, OpenLineage, Webhook, notifiers

_SIZE_MAX: Final = 1 << 20


def configured(path: str | os.PathLike[str]) -> tuple[Notifier, ...]:
    """Read them. Raises UsageError for a file that is unreadable or has unknown settings."""
    try:
        raw = Path(path).read_bytes()[:_SIZE_MAX]
        document = tomllib.loads(raw.decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"{os.fspath(path)!a} cannot be read: {error}; nothing was sent") from None
    return notifiers([_made(os.fspath(path), name, said) for name, said in document.items()])


def _made(path: str, name: str, said: object) -> Notifier:
    place = f"{path}, [{name}]"
    if not isinstance(said, dict):
        raise UsageError(f"{place}: write a table with kind and url; nothing was sent")
    values = {key: value for key, value in said.items() if key not in {"kind", "secret_headers"}}
    make = _KINDS.get(str(said.get("kind")))
    if make is None:
        raise UsageError(f"{place}: kind is webhook, openlineage or function; nothing was sent")
    if unknown := values.keys() - (signature(make).parameters.keys() - {"name"}):
        raise UsageError(f"{place}: unknown setting {min(unknown)!r}; nothing was sent")
    try:
        if secret := said.get("secret_headers"):
            values["headers"] = {**values.get("headers", {}), **_secrets(secret)}
        return make(**values, name=name)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{place}: {error}; nothing was sent") from None


def _secrets(named: object) -> Mapping[str, str]:
    if not isinstance(named, dict) or not all(isinstance(one, str) for one in named.values()):
        raise UsageError("secret_headers maps headers to names of environment variables")
    if missing := sorted(one for one in named.values() if one not in os.environ):
        raise UsageError(f"the environment variable {missing[0]} is not set")
    return {header: os.environ[one] for header, one in named.items()}


def _function(name: str) -> Notifier:
    module, _, place = name.partition(":")
    try:
        found = attrgetter(place)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"function {name!a} cannot be imported: {error}; nothing was sent") from None
    return Function(found, name)


_KINDS: Final[Mapping[str, Callable[..., Notifier]]] = {
    "function": _function,
    "openlineage": OpenLineage,
    "webhook": Webhook,
}
