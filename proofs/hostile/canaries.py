"""Secrets: a canary in every place that takes one stays in memory, whatever is done and whatever fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from magicfs.stores import resolve
from magicfs.stores.s3 import client as s3_client
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.servers import Ministack
from proofs.hostile import leaks
from proofs.hostile.part import Found, WrongLine
from proofs.hostile.searching import Outputs, canary, in_url

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz"]

NAME: Final = "secrets"
_SERVERS: Final[Sequence[tuple[Callable[[], Any], tuple[str, ...]]]] = (
    (Ministack, ("S3", "S3, nested")),
    (GcsDouble, ("GCS",)),
    (AdlsDouble, ("Azure", "Azure, SAS")),
)


_ATTACKS: Final = (
    leaks.objects_of_python,
    leaks.by_position,
    leaks.command_line,
    leaks.messages,
    leaks.catalogs,
    leaks.failures,
    leaks.logs_of_botocore,
)


def fixed() -> Found:
    """Every place of every store, published through where a server takes it, and failing everywhere."""
    found = Found()
    for attack in _ATTACKS:
        found.add(attack())
    for start, names in _SERVERS:
        with start() as server:
            server.create_bucket("bucket")
            for name in names:
                found.add(leaks.published(server, name))
    return found


def fuzz(until: float, seed: int) -> Found:
    """Passwords at random depths of random options, in random spellings."""
    found = Found()
    while time.monotonic() < until:
        drawn = random.Random(seed)  # noqa: S311 - attacks that can be repeated
        secret = canary(drawn.randrange(10_000))
        options = _drawn(drawn, secret)
        outputs = Outputs(f"fuzz with seed {seed}", {"password": secret})
        with outputs.errors("making options"):
            outputs.look("what is left of options", repr(resolve.without_secrets(options)))
            outputs.look("messages about them", repr(sorted(resolve.secrets_of(options))))
        if not resolve.secrets_of(options):
            outputs.violations.append(f"{outputs.where}: the password in {options} is not seen")
        with outputs.errors("checking options"):
            s3_client.check(options)
        leaks.refuse_on_command_line(outputs, options)
        found.add(leaks.of_outputs(outputs))
        seed += 1
    return found


def _drawn(drawn: random.Random, secret: str) -> dict[str, Any]:
    coded = in_url(secret)
    value: Any = drawn.choice(
        [
            f"http://{coded}@host:1/a",
            f"https://u:{coded}@host",
            f"socks5://u:{coded}@host:1",
            f"u:{coded}@host:1",
            f"HTTPS://:{coded}@host",
            f"https://host/a?sv=1&sig={coded}",
            f"AccountName=a;AccountKey={coded}==",
        ]
    )
    for _ in range(drawn.randrange(4)):
        name = drawn.choice(["endpoint_url", "proxies", "client_kwargs", "config_kwargs", "anything", "s3"])
        value = drawn.choice([[value], {name: value, "n": 1}, {name: [1, value]}])
    name = drawn.choice(["endpoint_url", "client_kwargs", "config_kwargs", "session_kwargs", "other"])
    return {name: value, "anon": False}


def _by(attack: Callable[[], Found]) -> Callable[[], Sequence[str]]:
    return lambda: attack().violations


_BACKENDS: Final = "magicfs.stores.backends"
MUTANTS: Final = (
    WrongLine(
        "options are secret by their names alone",
        _BACKENDS,
        "return _carries_secret(value)",
        "return False",
        _by(leaks.objects_of_python),
    ),
    WrongLine(
        "a pickle keeps a URL whole",
        _BACKENDS,
        "return redacted(value)",
        "return value",
        _by(leaks.objects_of_python),
    ),
    WrongLine(
        "lists of options are not looked into",
        _BACKENDS,
        "return any(_carries_secret(one) or _has_secret(one) for one in value)",
        "return False",
        lambda: fuzz(time.monotonic() + 0.5, 0).violations,
    ),
    WrongLine(
        "secrets by position are pickled",
        "magicfs.job.spec",
        "if self.filesystem is not None and (found := resolve.secrets_of(options_of(self.filesystem))):",
        "if self.filesystem is not None and (found := resolve.secrets_of(self.filesystem.storage_options)):",
        _by(leaks.by_position),
    ),
    WrongLine(
        "a command takes secrets",
        "magicfs.cli.storage",
        "if secrets := sorted(resolve.secrets_of(options)):",
        "if secrets := []:",
        _by(leaks.command_line),
    ),
    WrongLine(
        "options are quoted whole",
        "magicfs.stores.s3.client",
        "shown = redacted(endpoint)",
        "shown = endpoint",
        _by(leaks.messages),
    ),
    WrongLine(
        "a destination with a password is quoted",
        "magicfs.stores.resolve",
        "if paths.has_password(plain):",
        "if False:",
        _by(leaks.messages),
    ),
    WrongLine(
        "botocore gets the endpoint's password",
        "magicfs.stores.s3.client",
        "made[name] = redacted(value)",
        "made[name] = value",
        _by(leaks.logs_of_botocore),
    ),
    WrongLine(
        "a metastore's address is taken with a password",
        "magicfs.catalogs.recorded",
        'if "@" in at.netloc or urlunsplit(at._replace(scheme="", netloc="")) not in {"", "/"}:',
        "if False:",
        _by(leaks.messages),
    ),
    WrongLine(
        "a report quotes a catalog's library",
        "magicfs.catalogs.in_jobs",
        'problem = f"job {report.job_id} yet: {resolve.redacted(str(error))}"',
        'problem = f"job {report.job_id} yet: {error}"',
        _by(leaks.catalogs),
    ),
    WrongLine(
        "recover quotes a catalog's library",
        "magicfs.catalogs.catch_up",
        'problem = f"{type(error).__name__}: {resolve.redacted(str(error))}; {_as_recorded(one)}"',
        'problem = f"{type(error).__name__}: {error}; {_as_recorded(one)}"',
        _by(leaks.catalogs),
    ),
)
