"""``magicfs --completion SHELL``: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

__all__ = ["script"]

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
