"""Completion of commands and options in bash, zsh and fish: a script for the shell, made of the
parsers."""

import os
from pathlib import Path

from ..errors import UsageError
from .parser import COMMANDS, FLAGS, names_after, parser_of

BASH = """\
_fastdp() {{
    local words
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{cases}
        *) words="{top}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _fastdp fastdp
"""
PLACES = {
    "bash": (".bash_completions/fastdp.sh", ".bashrc"),
    "zsh": (".zsh_completions/fastdp.sh", ".zshrc"),
}
PLACES["fish"] = (".config/fish/completions/fastdp.fish", "")
"""Below the home folder: the script, and the file that reads it when a shell starts."""


def shell() -> str:
    """The user's shell; UsageError if there is no completion for it."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in PLACES:
        raise UsageError(
            f"completion is for {', '.join(PLACES)}; the variable SHELL names {name or 'no shell'}"
        )
    return name


def script(shell: str) -> str:
    """The lines that tell the shell what to complete."""
    words: dict[tuple[str, ...], list[str]]
    words = {
        (group,): names_after((group,)) for group in {path[0] for path in COMMANDS if path[1:]}
    } | {path: [names[-1] for names in parser_of(path).options] for path in COMMANDS}
    if shell == "fish":
        lines = [f"complete -c fastdp -n __fish_use_subcommand -a '{' '.join(names_after(()))}'"]
        for path, after in words.items():
            seen = " && ".join(f"__fish_seen_subcommand_from {name}" for name in path)
            lines.append(f"complete -c fastdp -n '{seen}' -a '{' '.join(after)}'")
        return "\n".join(lines) + "\n"
    longest = sorted(words.items(), key=lambda item: -len(item[0]))
    patterns = [
        (f'"{" ".join(path)}"' if path[1:] else f'"{path[0]} "*', after) for path, after in longest
    ]
    cases = [f'        {pattern}) words="{" ".join(after)}" ;;' for pattern, after in patterns]
    made = BASH.format(cases="\n".join(cases), top=" ".join(names_after(())))
    return made if shell == "bash" else f"autoload -U bashcompinit && bashcompinit\n{made}"


def install() -> None:
    """Write the script for the user's shell, let the shell read it when it starts, and say where it
    is."""
    kind = shell()
    place, reader = PLACES[kind]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(kind), "utf-8")
    file = Path.home() / reader
    if reader and not (file.exists() and str(path) in file.read_text("utf-8")):
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(f"\nsource '{path}'\n")
    print(f"{kind} completes fastdp from the next shell on ({path})")


FLAGS["--install-completion"] = install
FLAGS["--show-completion"] = lambda: print(script(shell()), end="")
