"""The command line: ``magicfs COMMAND``.

Results go to stdout, everything else to stderr. The exit status says what to do next:

====  ==========================================================================================
0     fine
1     found or undecided: pending uploads, an open job, a malformed file, a failed proof, a job that is
      published and could not be finished
2     usage: the call has to be changed
3     the store refused, or did not answer
4     conflict or denied: another job or attempt was chosen
5     outcome unknown: the store did not say what became of a commit
130   interrupted
141   whoever read stdout went away
====  ==========================================================================================
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from magicfs.cli.commands import commands
from magicfs.cli.printing import print_json, printable
from magicfs.errors import (
    CommitDenied,
    CommitError,
    CommitOutcomeUnknown,
    CommitUnfinished,
    FormatError,
    MagicError,
    OutputExists,
    StoreError,
)
from magicfs.version import __version__

__all__ = ["commands_of", "exit_code", "main"]

_EXIT_CODES = (
    (CommitOutcomeUnknown, 5),
    (CommitUnfinished, 1),
    (CommitDenied, 4),
    (OutputExists, 4),
    (CommitError, 3),
    (StoreError, 3),
    (FormatError, 1),
)
_NO_COMMAND = {"--version", "--json"}
_USAGE = 2
_INTERRUPTED = 130
_READER_GONE = 141
_FIRST_STEPS = """first steps:
  something does not work     magicfs doctor s3://bucket/sales
  a job or its driver died    magicfs recover s3://bucket/sales --dry-run
  is the data whole?          magicfs verify s3://bucket/sales
  what is still pending?      magicfs pending s3://bucket/sales

magicfs COMMAND --help says what a command takes.
"""
_EPILOG = (
    "exit status: 0 fine, 1 something was found, 2 usage, 3 store, 4 conflict or denied, 5 outcome unknown"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; no ``MagicError`` escapes. ``argv``: by default the
    process's. What stdout's encoding lacks is escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except KeyboardInterrupt:
        sys.stderr.write("magicfs: interrupted\n")
        return _INTERRUPTED
    return code


def exit_code(error: MagicError) -> int:
    """The exit status that stands for an error."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), _USAGE)


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        parser = _parser(_meant(words))
        arguments = parser.parse_args(words)
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else _USAGE
    except MagicError as error:  # a command that cannot be loaded
        return _failed(error)
    if arguments.version:
        _print_version(as_json=arguments.json)
        return 0
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return _USAGE
    try:
        code: int = arguments.run(arguments)
    except MagicError as error:
        return _failed(error)
    return code


def _meant(words: Sequence[str]) -> Mapping[str, ModuleType]:
    """The commands to be described: others than the one that is called are not imported."""
    if "--version" in words and not {*words} - _NO_COMMAND:
        return {}
    return commands(next((one for one in words if not one.startswith("-")), None))


def _failed(error: MagicError) -> int:
    sys.stderr.write(f"magicfs: {_explain(error)}\n")
    return exit_code(error)


def commands_of() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its name."""
    actions = _parser(commands())._actions  # noqa: SLF001 - argparse tells it nowhere else
    [found] = [one.choices for one in actions if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
    return dict(found)


def _parser(known: Mapping[str, ModuleType]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="magicfs",
        description="Publish datasets on object stores, all or nothing.",
        epilog=_FIRST_STEPS + _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--json", action="store_true", help="print one compact JSON line")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, module in known.items():
        command = subparsers.add_parser(
            name, help=module.HELP, description=module.HELP, epilog=_EPILOG, allow_abbrev=False
        )
        # Suppressed, so that a --json before the command's name is not undone.
        command.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print one compact JSON line"
        )
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def _print_version(*, as_json: bool) -> None:
    if as_json:
        print_json({"version": __version__})
    else:
        sys.stdout.write(f"magicfs {__version__}\n")


def _explain(error: MagicError) -> str:
    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return "\n  ".join(map(printable, said.splitlines()))
