"""The `disable` command: switches servers of `upstream.yaml` off; they stay listed, and are not started."""

from __future__ import annotations

import argparse

from codemode_server.cli.enable import add_arguments as add_arguments
from codemode_server.cli.enable import switch


def run(parsed: argparse.Namespace) -> int:
    return switch(parsed, is_enabled=False)
