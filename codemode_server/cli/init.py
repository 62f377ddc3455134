"""The `init` command: writes a first `upstream.yaml`, and names the hosts on this machine that can start us."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.terminal import show
from codemode_server.config import saving
from codemode_server.config.hosts import HOSTS, System
from codemode_server.config.places import ConfigFile, user_file

_NEXT = """
next:
  codemode-server import        takes over the servers that your hosts have
  codemode-server add NAME …    adds one
  codemode-server status        connects to all of them

then have your hosts start this server, in place of the others (`--print` shows the entry for a file of your own):"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(parsed: argparse.Namespace) -> int:
    given = config_file(parsed)
    with saving.locked(ConfigFile(Path(given).expanduser().absolute() if given else user_file())) as file:
        if is_new := file.is_new:
            file.save()
    show(f"written: {file.place.path}" if is_new else f"{file.place.path} is there already; it stays as it is")
    system = System.current()
    present = [host for host in HOSTS.values() if host.is_present(system)]
    option = f" --config {shlex.quote(str(file.place.path))}" if given else ""
    lines = [f"  {host.name}: codemode-server connect {host.id}{option}" for host in present]
    none = f"  codemode-server connect HOST{option}    no host was found here; HOST is one of {', '.join(HOSTS)}"
    show("\n".join([_NEXT, *(lines or [none])]))
    return 0
