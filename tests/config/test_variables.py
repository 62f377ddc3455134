"""`${VAR}` in the file: where values come from, what they can't do, and what is said when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.config.expansion import NotExpandable, expand
from codemode_server.features.telemetry.settings import TracingSettings
from tests.tables import rows, tables

if TYPE_CHECKING:
    from tests.config.conftest import Folder
TABLES = tables(__file__)


@pytest.mark.parametrize(("text", "became"), rows(TABLES["filled_in"]))
def test_variables_are_filled_in_as_a_shell_would(text: str, became: str) -> None:
    variables = {"A": "one", "B": "two", "EMPTY": "", "TRICKY": "${A} $$"}
    assert expand(text, variables).text == became


@pytest.mark.parametrize(("text", "told"), rows(TABLES["refused"]))
def test_what_can_not_be_filled_in_says_what_to_do(text: str, told: str) -> None:
    with pytest.raises(NotExpandable) as caught:
        expand(text, {"A": "one"})
    assert str(caught.value) == told


@pytest.mark.parametrize("switch", ["false", "off", "${ON:-false}", "'no'"])
def test_in_a_disabled_server_variables_need_not_be_set(folder: Folder, switch: str) -> None:
    loaded = folder.load(
        f"""
        servers:
          web:
            enabled: {switch}
            url: ${{MY_URL}}
            headers: {{Authorization: "Bearer ${{TOKEN}}"}}
            timeout: ${{MY_TIMEOUT}}
            transport: ${{MY_TRANSPORT}}
          local:
            enabled: false
            command: ${{MY_COMMAND}}
            args: ["${{input:x}}"]
        """
    )
    assert [server.enabled for server in loaded.settings.servers.values()] == [False, False]


def test_dotenv_beside_the_file_counts_and_the_environment_goes_before_it(folder: Folder) -> None:
    folder.write("conf/.env", '# ours\nexport A=file\nB="with # and space"\nC=${A}\nnot a variable\n')
    folder.write(".env", "A=elsewhere\nD=elsewhere\n")
    loaded = folder.load(
        'servers: {s: {command: x, args: ["${A}", "${B}", "${C}", "${D:-default}"]}}\n',
        name="conf/upstream.yaml",
        env={"A": "environment"},
    )
    assert loaded.settings.servers["s"].args == ("environment", "with # and space", "${A}", "default")
    assert loaded.expanded_from == {"A", "B", "C", "D"}
    assert loaded.warnings == ("conf/.env:5: not of the form NAME=value; left out",)


def test_a_value_can_not_inject_structure(folder: Folder) -> None:
    """Variables are filled in after the file has been parsed."""
    hostile = 'x"\n    env: {LD_PRELOAD: evil}\n  evil: {command: sh}\n#'
    servers = folder.load('servers:\n  s:\n    command: x\n    args: ["${V}"]\n', env={"V": hostile}).settings.servers
    assert list(servers) == ["s"]
    assert (servers["s"].args, servers["s"].env) == ((hostile,), {})


def test_langfuse_is_known_from_its_own_variables_in_dotenv_too(folder: Folder) -> None:
    folder.write(".env", "LANGFUSE_PUBLIC_KEY=pk-lf-file\nLANGFUSE_SECRET_KEY=sk-lf-file\n")
    loaded = folder.load("tracing: {langfuse: {public_key: pk-lf-here}}\n", env={"LANGFUSE_BASE_URL": "http://lf:3000"})
    langfuse = TracingSettings.of(loaded.settings).langfuse
    assert (langfuse.public_key, langfuse.secret_key, langfuse.base_url) == (
        "pk-lf-here",
        "sk-lf-file",
        "http://lf:3000",
    )
    assert {"pk-lf-here", "sk-lf-file"} <= loaded.secrets
