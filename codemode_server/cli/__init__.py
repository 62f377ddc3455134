"""The command line. Exit codes: 0 done, 1 done with a bad answer, 2 the configuration or the call is wrong.

A command is a module with `run(parsed)` and, if it has arguments, `add_arguments(parser)`. It is
imported only if the call names it, and argparse is used, which costs 10 ms: a host starts `serve` and waits for it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from codemode_server import __version__
from codemode_server.cli.arguments import add_config
from codemode_server.domain.errors import CodemodeError
from codemode_server.features import FEATURES

_COMMANDS = {
    "serve": "serve over stdio, or over HTTP",
    "init": "write a first upstream.yaml, and print the next commands",
    "import": "take over the servers that your hosts have",
    "connect": "put this product into the configuration file of a host",
    "disconnect": "take it out again, and put back what was there",
    "add": "add a server: add NAME -- COMMAND …, or add NAME URL",
    "remove": "remove a server",
    "list": "list the servers, without connecting",
    "enable": "switch a server on",
    "disable": "switch a server off",
    "test": "connect to one server, and show its tools or the whole error",
    "config": "check upstream.yaml, or print its JSON Schema",
    "status": "connect to every upstream and show its state",
    "stop": "end the server that your hosts share; their next request starts it again",
    "login": "sign in to a server with OAuth",
    "logout": "revoke and forget the sign-in to a server",
    "sync": "write the tree of stubs for people and editors",
    "doctor": "check where programs will run, and how to fix what is missing",
    "setup": "fetch and compile ahead what the sandbox needs",
    "trust": "allow the upstream.yaml of a folder to start servers",
    "secrets": "store, list or remove what ${keyring:NAME} in upstream.yaml stands for",
    "node": "run programs for replicas on other machines",
    "tokens": "make, list and revoke the tokens with which others are served over HTTP",
    "workspace": "show the programs' files, or remove them",
    "executions": "list programs that ran, show, follow or export them",
    "audit": "print the audit, or check that nobody changed it",
    "logs": "print the newest lines of the product's own log",
    "permissions": "explain the decision on a call, allow calls, or test a table of expected decisions",
    "effects": "say which tools only read, where their servers don't",
    "paths": "print every file and folder that is used",
    "completion": "print a script that completes commands in bash, zsh, fish or PowerShell",
    **{name: summary for feature in FEATURES for name, summary in feature.commands.items()},
}
"""The commands, and what `--help` says of each."""
_MODULES = {
    **dict.fromkeys(("init", "paths", "logs", "completion"), "installation"),
    **dict.fromkeys(("list", "add", "enable", "disable", "remove"), "servers"),
    "import": "import_servers",
    "test": "status",
    "disconnect": "connect",
    "logout": "login",
    "setup": "doctor",
    "trust": "config",
}
"""Commands whose module has another name, since Python uses the word or commands share the module. In a shared one a
function of one command alone has its name, as `run_logout`."""
_FEATURE_OF = {name: feature for feature in FEATURES for name in feature.commands}
_EXIT_BROKEN_PIPE = 141
_WITHOUT_CONFIG = frozenset({"trust", "completion", "node"})
_TAKES_COMMAND_LINE = frozenset({"add", "import"})
_EXAMPLE = """\
example:
  codemode-server config check --config upstream.yaml    # what is in the file, and what is wrong with it
  codemode-server status --config upstream.yaml          # connects to every server in it
  claude mcp add codemode -- codemode-server --config /full/path/to/upstream.yaml
"""


def run(arguments: Sequence[str]) -> int:
    arguments, command_line = _split(list(arguments))
    parser = _parser(arguments)
    parsed, others = parser.parse_known_args(arguments, argparse.Namespace(command_line=command_line))
    if parsed.command in _TAKES_COMMAND_LINE and not any(it.startswith("-") for it in others):
        parsed.words += others  # argparse takes no positional arguments behind an option
    elif others:
        command: argparse.ArgumentParser = getattr(parsed, "parser", parser)
        message = f"unrecognized arguments: {' '.join(others)}; `{command.prog} --help` lists what there is"
        if parsed.command == "add" and parsed.words and "://" not in parsed.words[0]:
            line = " ".join(arguments[arguments.index(parsed.words[0]) :])
            message = f"write the command behind `--`: add {parsed.name} -- {line}"
        command.error(message)
    try:
        code: int = _function("run", parsed.command or "serve")(parsed)
        sys.stdout.flush()
    except CodemodeError as error:
        from codemode_server.support.text import escaped_lines

        print(f"codemode-server: {escaped_lines(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as in `codemode-server approvals list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at its end
        return _EXIT_BROKEN_PIPE
    return code


def whole_parser() -> argparse.ArgumentParser:
    return _parser(list(_COMMANDS))


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands; of the arguments of a command only if its name is among `arguments`."""
    parser = _Parser(
        prog="codemode-server",
        description="One MCP server in place of all the others. Without a command: serve over stdio.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config(parser)
    parser.add_argument("--version", action="version", version=f"codemode-server {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        command.set_defaults(parser=command)
        if name in arguments:
            if add_arguments := _function("add_arguments", name):
                add_arguments(command)
            if name not in _WITHOUT_CONFIG:
                _accept_config(command)
    return parser


def _accept_config(parser: argparse.ArgumentParser) -> None:
    """Let `--config` stand behind the command and behind its action too."""
    add_config(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _accept_config(command)


def _function(name: str, command: str) -> Any:
    """A function of the command's module; None if it has none of this name."""
    feature = _FEATURE_OF.get(command)
    module = import_module(f"{feature.package}.commands" if feature else f"{__name__}.{_MODULES.get(command, command)}")
    return getattr(module, f"{name}_{command}", None) or getattr(module, name, None)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments, and the command line behind `--`, in which argparse would take a `-y` for an option of ours."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    if _TAKES_COMMAND_LINE.isdisjoint(arguments[:at]):
        return arguments, []
    return arguments[:at], arguments[at + 1 :]


class _Parser(argparse.ArgumentParser):
    """Answers a mistyped command or option with the one that was probably meant. A command whose `action` has a default
    takes its options without its name: `audit --limit 2` is `audit show --limit 2`."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        default = self.get_default("action")
        if default and not {"-h", "--help"} & {*words} and all(it.startswith("-") for it in words[:1]):
            choices = {it for action in self._actions for it in action.choices or ()}
            words = words if choices & {*words} else [default, *words]
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        choice = r"argument (COMMAND|ACTION|HOST): invalid choice: '(.*)' \(choose from (.*)\)"
        if wrong := re.fullmatch(choice, message, re.DOTALL):
            from codemode_server.config.problems import nearest

            known = [name.strip("' ") for name in wrong[3].split(",")]
            meant = nearest(wrong[2], known, cutoff=0.5)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(known)}"
            if self.prog.endswith(" executions") and re.fullmatch(r"x[0-9a-f]{12}", wrong[2]):
                hint = f"write: {self.prog} show {wrong[2]}"
            message = f"there is no {'host' if wrong[1] == 'HOST' else 'command'} {wrong[2]!r}; {hint}"
        super().error(message)
