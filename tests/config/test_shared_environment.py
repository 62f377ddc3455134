"""`env` at the top of the file: what all servers get that are processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemode_server.config.description import describe

if TYPE_CHECKING:
    from tests.config.conftest import Folder


def test_all_servers_that_are_processes_get_it_and_their_own_goes_before_it(folder: Folder) -> None:
    loaded = folder.load(
        """
        env: {SSL_CERT_FILE: /ca.pem, NO_PROXY: yes}
        servers:
          one: {command: x}
          two: {command: x, env: {SSL_CERT_FILE: /own.pem, LEVEL: debug}}
          web: {url: "https://a.example/mcp"}
        """
    )
    one, two, web = loaded.settings.servers.values()
    assert one.env == {"SSL_CERT_FILE": "/ca.pem", "NO_PROXY": "yes"}
    assert two.env == {"SSL_CERT_FILE": "/own.pem", "NO_PROXY": "yes", "LEVEL": "debug"}
    assert web.env == {}


def test_its_secrets_are_masked_like_those_of_a_server(folder: Folder) -> None:
    loaded = folder.load(
        """
        env: {HTTPS_PROXY: "http://me:${PROXY_PASSWORD}@proxy:3128", API_KEY: "${A}"}
        servers: {one: {command: x}}
        """,
        env={"PROXY_PASSWORD": "hunter2-hunter2", "A": "0123456789abc"},
    )
    assert {"hunter2-hunter2", "0123456789abc"} <= loaded.secrets
    assert "env: HTTPS_PROXY, API_KEY" in describe(loaded).splitlines()


def test_a_variable_that_is_set_elsewhere_only_is_left_out(folder: Folder) -> None:
    """The same file serves at home, where there is no proxy."""
    loaded = folder.load('env: {HTTPS_PROXY: "${HTTPS_PROXY}", A: b}\nservers: {one: {command: x}}\n')
    assert loaded.settings.servers["one"].env == {"A": "b"}
    (warning,) = loaded.warnings
    assert warning.startswith("upstream.yaml:1: env.HTTPS_PROXY: left out, since HTTPS_PROXY is not set")


def test_a_name_that_is_none_is_told(folder: Folder) -> None:
    assert folder.refusal('env: {"A=B": c}\n') == [
        'upstream.yaml:1: env."A=B": is not the name of an environment variable'
    ]
