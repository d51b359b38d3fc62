"""``magicfs completion SHELL``: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
import sys

from magicfs.cli.printing import print_json

__all__ = ["HELP", "configure", "run"]

HELP = 'print what lets a shell complete commands: eval "$(magicfs completion bash)"'

_SHELLS = ("bash", "zsh", "fish")
_BASH = """_magicfs() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" command="" one
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$one" in -*) ;; *) command="$one"; break ;; esac
  done
  local words="{commands} --help --json --version"
  case "$command" in
{cases}
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _magicfs magicfs
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("shell", choices=_SHELLS, help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script. Returns 0."""
    script = _script(arguments.shell, _words())
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        sys.stdout.write(script)
    return 0


def _words() -> dict[str, list[str]]:
    """The options of each command."""
    from magicfs.cli.main import commands_of

    return {
        name: sorted(option for option in parser._option_string_actions if option.startswith("--"))  # noqa: SLF001
        for name, parser in commands_of().items()
    }


def _script(shell: str, words: dict[str, list[str]]) -> str:
    if shell == "fish":
        lines = ["complete -c magicfs -n __fish_use_subcommand -f -a '" + " ".join(words) + "'"]
        for name, options in words.items():
            seen = f"__fish_seen_subcommand_from {name}"
            lines += [f"complete -c magicfs -n '{seen}' -l {option[2:]}" for option in options]
        return "\n".join(lines) + "\n"
    cases = "\n".join(f'    {name}) words="{" ".join(options)}" ;;' for name, options in words.items())
    bash = _BASH.format(commands=" ".join(words), cases=cases)
    return (_ZSH if shell == "zsh" else "") + bash
