"""The command line: ``magicfs COMMAND``.

Results go to stdout, everything else to stderr. The exit status says what to do next (``statuses``).
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from types import ModuleType

from magicfs.cli.commands import commands, group_of
from magicfs.cli.parser import Parser
from magicfs.cli.printing import print_error, print_json, write_line
from magicfs.cli.statuses import Status
from magicfs.errors import MagicError, UsageError
from magicfs.runtime import registered
from magicfs.version import __version__

_LOGS = "magicfs.logs"
"""Entry points of ways to write the log, each a context."""
_ALONE = {"--version", "--json"}
_FIRST_STEPS = (
    "first steps:\n  something does not work     magicfs doctor s3://bucket/sales\n  a job or its driver "
    "died    magicfs recover s3://bucket/sales --dry-run\n  is the data complete?          magicfs verify "
    's3://bucket/sales\n  complete words in a shell   eval "$(magicfs --completion bash)"\n\nmagicfs '
    "COMMAND --help shows its arguments and options.\n\nexit status:\n"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; no ``MagicError`` escapes. ``argv``: by default the
    process's. What stdout's encoding lacks is escaped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.READER_GONE
    except (MagicError, KeyboardInterrupt) as error:
        options = words[: words.index("--")] if "--" in words else words
        return print_error(error, as_json="--json" in options)
    return code


def _run(words: Sequence[str]) -> int:
    try:
        parser = _parser(_meant(words))
        arguments = parser.parse(words)
    except SystemExit:  # argparse has printed the help
        return Status.FINE
    if arguments.version and arguments.json:
        print_json({"version": __version__})
    elif arguments.version:
        write_line(f"magicfs {__version__}")
    elif arguments.completion:
        from magicfs.cli.parser import script

        sys.stdout.write(script(arguments.completion, commands_of()))
    elif arguments.command is None:
        if arguments.json:
            raise UsageError("no command given; magicfs --help lists them")
        parser.print_help(sys.stderr)
        return Status.USAGE
    else:
        log = registered.load(_LOGS, "json") if arguments.log_json else nullcontext
        with log():
            code: int = arguments.run(arguments)
        return code
    return Status.FINE


def _meant(words: Sequence[str]) -> Mapping[str, ModuleType]:
    """The commands to be described: others than the one that is called are not imported."""
    if not {*words} - _ALONE and "--version" in words:
        return {}
    if "--completion" in words:
        return commands()
    return commands(next((one for one in words if not one.startswith("-")), None))


def commands_of() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its name."""
    actions = _parser(commands())._actions  # noqa: SLF001 - argparse tells it nowhere else
    [found] = [one.choices for one in actions if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
    return dict(found)


def _parser(known: Mapping[str, ModuleType]) -> Parser:
    parser = Parser(
        prog="magicfs",
        usage="magicfs COMMAND [ARGUMENTS]",
        description=f"Publish datasets on object stores, all or nothing.\n{_listed(known)}",
        epilog=_FIRST_STEPS + "\n".join(f"  {one.value:<5}{one.meaning.replace('`', '')}" for one in Status),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument(
        "--completion",
        metavar="SHELL",
        choices=("bash", "zsh", "fish"),
        help="print a completion script for bash, zsh or fish",
    )
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", prog="magicfs", help=argparse.SUPPRESS
    )
    for name, module in known.items():
        command = subparsers.add_parser(
            name, description=module.HELP, epilog="magicfs --help explains the exit statuses."
        )
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def _listed(known: Mapping[str, ModuleType]) -> str:
    lines = []
    for group, names in groupby(known, lambda name: group_of(known[name])):
        lines += ["", f"{group}:", *(f"  {name:<10}{known[name].HELP}" for name in names)]
    return "\n".join(lines)
