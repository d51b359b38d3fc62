"""A parser of arguments that raises ``UsageError``, and names the word that was meant.

And the scripts by which shells complete words.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from magicfs.errors import UsageError

_COMMANDS: Final = {
    **dict.fromkeys(("abort", "cancel", "kill"), "recover URL --job ID --abort"),
    **dict.fromkeys(("commit", "finish", "accept"), "recover URL --job ID --commit"),
    **dict.fromkeys(("pending", "list-uploads"), "uploads URL"),
    **dict.fromkeys(("expire", "compact", "vacuum", "clean", "cleanup", "gc"), "maintain URL"),
    **dict.fromkeys(("rewrite", "optimize", "repartition"), "maintain URL --rewrite 128M"),
    "register": "maintain URL --register delta",
    **dict.fromkeys(("history", "versions", "snapshots", "list", "ls"), "log URL"),
    **dict.fromkeys(("restore", "undo", "revert"), "rollback URL --to JOB"),
    **dict.fromkeys(("delete", "remove", "rm"), "drop URL"),
    "diagnose": "doctor URL",
    **dict.fromkeys(("fsck", "validate"), "verify URL"),
    "repair": "adopt URL",
    "untag": "tag URL NAME --delete",
    "publish": "job publish PATH",
    "discard": "job discard PATH",
    "completion": "--completion bash",
    "help": "--help",
    "version": "--version",
}
"""What does the work of commands of other tools, and of our own before 1.0."""
_OPTIONS: Final = {
    **dict.fromkeys(("--conflict", "--save-mode", "--if-exists", "--overwrite", "--append"), "--mode"),
    **dict.fromkeys(("--keep-replaced", "--retain", "--retention"), "--keep"),
    **dict.fromkeys(("--partition-on", "--partition-cols", "--partitionBy"), "--partition-by"),
    **dict.fromkeys(("--dryrun", "--noop", "--check", "--preview", "-n"), "--dry-run"),
    **dict.fromkeys(("--as-of", "--version", "--job"), "--to"),
    **dict.fromkeys(("--target-size", "--max-file-size"), "--rewrite"),
    "--filter": "--where",
}
"""The same of options, where the command has the one that is meant."""
_VALUES: Final = {"replace": "overwrite", "replace_partitions": "overwrite_partitions", "fail": "error"}


class Parser(argparse.ArgumentParser):
    """Takes no abbreviations. Each has ``--json``."""

    def __init__(self, **how: Any) -> None:
        super().__init__(allow_abbrev=False, **how)
        self.set_defaults(parser=self)
        # Not set unless given, so that a --json before the command's name is not undone.
        self.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print one compact JSON line"
        )
        self.add_argument(
            "--log-json",
            action="store_true",
            default=argparse.SUPPRESS,
            help="log each step to stderr as JSON",
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments. Raises UsageError for any that are not known, or lack."""
        arguments, rest = self.parse_known_args(words, argparse.Namespace(json=False, log_json=False))
        if rest:
            parser: Parser = arguments.parser
            raise UsageError(parser.unknown(rest[0].partition("=")[0]))
        return arguments

    def error(self, message: str) -> Any:
        """Raise what argparse would print."""
        raise UsageError(f"{message}; run {self.prog} --help")

    def unknown(self, word: str) -> str:
        """What to say about a word that is not known here."""
        if not word.startswith("-"):
            return f"unexpected argument {word!r}; {self.prog} --help lists them"
        meant = _meant(word, self._option_string_actions, _OPTIONS)
        return f"{self.prog} has no option {word}; {meant or f'{self.prog} --help lists them'}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no public name
            name = action.option_strings[-1] if action.option_strings else action.metavar
            meant = _meant(value, action.choices, _VALUES) or f"choose from {', '.join(action.choices)}"
            raise UsageError(f"{name} does not accept {value!r}; {meant}")
        is_top = action.dest == "command"
        lines = {word: f"magicfs {line}" for word, line in _COMMANDS.items() if is_top}
        meant = _meant(value, [*action.choices, *lines.values()], lines) or f"{self.prog} --help lists them"
        raise UsageError(f"{self.prog} has no {'command' if is_top else 'part'} {value!r}; {meant}")


def _meant(word: str, known: Iterable[str], others: Mapping[str, str]) -> str:
    """The known word that is meant, as such or by one of other tools; empty if none is near."""
    own = {other: meant for other, meant in others.items() if meant in [*known]}
    near = (*get_close_matches(word, [*known, *own], 1), "")[0]
    return f"write {own[near]}" if near in own else near and f"did you mean {near}?"


_BASH = """_magicfs() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" command="" one
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$one" in -*) ;; *) command="$one"; break ;; esac
  done
  local words="{commands} --completion --help --json --version"
  case "$command" in
{cases}
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _magicfs magicfs
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``."""
    words = {name: sorted(_words(parser)) for name, parser in parsers.items()}
    if shell == "fish":
        lines = ["complete -c magicfs -n __fish_use_subcommand -f -a '" + " ".join(words) + "'"]
        for name, known in words.items():
            seen = f"__fish_seen_subcommand_from {name}"
            lines += [
                f"complete -c magicfs -n '{seen}' " + (f"-l {one[2:]}" if one[0] == "-" else f"-f -a {one}")
                for one in known
            ]
        return "\n".join(lines) + "\n"
    cases = "\n".join(f'    {name}) words="{" ".join(known)}" ;;' for name, known in words.items())
    bash = _BASH.format(commands=" ".join(words), cases=cases)
    return (_ZSH if shell == "zsh" else "") + bash


def _words(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command, and its parts with theirs."""
    found = {option for option in parser._option_string_actions if option.startswith("--")}  # noqa: SLF001
    for action in parser._actions:  # noqa: SLF001 - argparse tells it nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, part in action.choices.items():
                found |= {name, *_words(part)}
    return found
