"""Secrets: which values are, and that no message, repr or description ever shows one."""

from __future__ import annotations

import json
import pickle
import traceback
from typing import TYPE_CHECKING

import pytest

from codemode_server.config.description import describe
from codemode_server.config.secrecy import looks_secret
from codemode_server.domain.errors import SettingsError
from codemode_server.features.telemetry.settings import TracingSettings
from tests.tables import rows, tables

if TYPE_CHECKING:
    from tests.config.conftest import Folder
TABLES = tables(__file__)

CANARY = "c4n4ry-Value-0xDEAD"
SECRET_NAMES = (
    "GITHUB_TOKEN X-Api-Key apiKey OPENAI_API_KEY clientSecret DB_PASSWORD passwd PGPASS Authorization "
    "Cookie AWS_ACCESS_KEY_ID SESSION bearer credentials x-auth SENTRY_DSN JWT PASSPHRASE AUTHOR_TOKEN "
    "db_pw "
)
HARMLESS_NAMES = "AUTHOR KEYBOARD MONKEY_ID PORT URL COMPASS TOKEN_TYPE PUBLIC_KEY AUTH_MODE Accept HOST keyName "


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_name_that_looks_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", HARMLESS_NAMES.split())
def test_a_name_that_does_not(name: str) -> None:
    assert not looks_secret(name)


def test_what_a_variable_put_into_a_server_is_secret_whatever_its_name(folder: Folder) -> None:
    loaded = folder.load(
        """
        servers:
          a: {command: x, args: ["--flag=${ONE}"], env: {PLAIN: "${TWO}"}}
          b: {url: "https://h.example/${THREE}", headers: {X-Plain: "${FOUR}"}}
          c: {command: x, env: {PLAIN: "${FIVE:-default-is-in-the-file}", MY_TOKEN: "${SIX:-default-token}"}}
        """,
        env={"ONE": "value-one", "TWO": "value two", "THREE": "value3", "FOUR": "value-four"},
    )
    assert loaded.secrets == {"value-one", "value two", "value3", "value-four", "default-token"}


def test_what_is_written_under_a_name_that_looks_secret_is_secret(folder: Folder) -> None:
    loaded = folder.load(
        """
        servers:
          a:
            command: x
            args: [--token, tok-1-literal, --api-key=tok-2-literal, -e, "MY_SECRET=tok-3-literal", --header,
                   "Authorization: Bearer tok-4-literal", "postgres://me:tok-5-literal@h/db", --name, innocent-name]
            env: {GITHUB_TOKEN: tok-6-literal, PLAIN: innocent-value, DATABASE_URL: "pg://u:tok-7-literal@h/db"}
          b:
            url: https://user:tok-8-literal@h.example/mcp?api_key=tok-9-literal&q=innocent-query
            headers: {Authorization: Bearer tok-10-literal, Cookie: "sid=tok-11-literal; b=2", Accept: text/innocent}
          c: {url: "https://h.example/s/abcDEF0123456789abcDEF/mcp"}
          d: {url: "https://h.example/mcp", headers: {Authorization: Basic dXNlcjp0b2stMTItbGl0ZXJhbA==}}
        tracing: {langfuse: {secret_key: sk-lf-literal}, otlp_endpoint: "http://u:tok-13-literal@h/"}
        """
    )
    assert loaded.secrets == {
        *(f"tok-{number}-literal" for number in range(1, 14)),
        "Bearer tok-4-literal",
        "Bearer tok-10-literal",
        "me:tok-5-literal",
        "u:tok-7-literal",
        "user:tok-8-literal",
        "u:tok-13-literal",
        "sid=tok-11-literal; b=2",
        "abcDEF0123456789abcDEF",
        "Basic dXNlcjp0b2stMTItbGl0ZXJhbA==",
        "dXNlcjp0b2stMTItbGl0ZXJhbA==",
        "user:tok-12-literal",
        "sk-lf-literal",
    }


def test_what_would_mangle_innocent_results_is_no_secret(folder: Folder) -> None:
    loaded = folder.load(
        """
        servers:
          a:
            command: x
            args: ["${HOME}/notes", "${SHORT}", "${PLACE}", "${WEB}", "${NUMBER}", "${WHERE}"]
            env:
              USER_NAME: ${USER}
              POSTGRES_PASSWORD: postgres
              MAX_TOKENS: 100000
              TOKEN_FILE: /run/secrets/token
              GOOGLE_APPLICATION_CREDENTIALS: /home/me/key.json
              AUTH_TOKEN: abc
              API_KEY_URL: https://h.example/keys
        """,
        env={
            "HOME": "/home/someone",
            "USER": "someone",
            "SHORT": "abc",
            "PLACE": "/srv/data",
            "WEB": "https://h.example/mcp",
            "NUMBER": "300000",
            "WHERE": "db.example.com:5432",
        },
    )
    assert loaded.secrets == frozenset()


def test_a_private_key_is_secret_line_by_line(folder: Folder) -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQ"
    key = f"-----BEGIN KEY-----\n{body}\n-----END KEY-----"
    loaded = folder.load('servers: {a: {command: x, env: {KEY: "${PEM}"}}}\n', env={"PEM": key})
    assert loaded.secrets == {key, body}


def test_the_key_in_the_file_of_a_service_account_is_a_secret(folder: Folder) -> None:
    account = json.dumps({"type": "service_account", "private_key": f"-----BEGIN-----\n{CANARY}\n-----END-----"})
    loaded = folder.load('servers: {a: {command: x, env: {GOOGLE_CREDENTIALS: "${ACC}"}}}\n', env={"ACC": account})
    assert f"-----BEGIN-----\n{CANARY}\n-----END-----" in loaded.secrets
    assert "service_account" not in loaded.secrets


class TestTheWarningOfAWeakSecret:
    @pytest.mark.parametrize(("value", "why"), rows(TABLES["weak"]))
    def test_names_the_variable_and_never_the_value(self, folder: Folder, value: str, why: str) -> None:
        loaded = folder.load('servers: {a: {command: x, env: {T: "${DB_PASSWORD}"}}}\n', env={"DB_PASSWORD": value})
        (warning,) = loaded.warnings
        assert "DB_PASSWORD: this secret " + why in warning
        assert value not in warning
        assert warning in loaded.all_messages

    @pytest.mark.parametrize(
        "entry",
        [
            "DB_PASSWORD: aLongerSecret17",
            "SESSION_ENABLED: 'true'",
            "USE_TOKEN: '1'",
            "MAX_TOKENS: '4096'",
            "PORT: '80'",
            "TOKEN_FILE: /run/t",
        ],
    )
    def test_is_not_given_for_what_is_no_weak_secret(self, folder: Folder, entry: str) -> None:
        """The positive control."""
        assert folder.load(f"servers: {{a: {{command: x, env: {{{entry}}}}}}}\n").warnings == ()


def test_the_description_and_every_repr_hide_secrets_short_ones_too(folder: Folder) -> None:
    loaded = folder.load(
        """
        servers:
          a:
            command: x
            args: [--token, "${CANARY}", -p, "${PIN}", --password=ab, "--url=http://u:cd@h/"]
            env: {GITHUB_TOKEN: "${CANARY}"}
          b:
            url: https://u:${CANARY}@h.example/mcp?key=xy&q=1
            headers: {Authorization: "Bearer ${CANARY}"}
            description: for ${CANARY}
        tracing: {langfuse: {public_key: pk, secret_key: "${CANARY}", base_url: "https://${CANARY}@h"}}
        """,
        env={"CANARY": CANARY, "PIN": "1234"},
    )
    text = describe(loaded)
    assert "servers.a starts x --token '${CANARY}' -p '${PIN}' --password=*** --url=http://***@h/" in text
    assert "servers.b.url: https://***@h.example/mcp?key=***&q=1" in text
    for shown in (text, repr(loaded), repr(loaded.settings.servers["a"]), repr(TracingSettings.of(loaded.settings))):
        assert CANARY not in shown
        assert "1234" not in shown


@pytest.mark.parametrize("text", rows(TABLES["refused"]))
def test_no_refusal_shows_a_value(folder: Folder, text: str) -> None:
    """Neither the message nor the traceback nor anything else that hangs on the error."""
    refused: SettingsError | None = None
    try:
        loaded = folder.load(text, env={"CANARY": CANARY})
    except SettingsError as error:
        refused = error
    if refused is None:
        assert loaded.server_errors, "the file was accepted"
        assert CANARY not in "".join((repr(loaded), describe(loaded), *loaded.server_errors))
        return
    assert CANARY not in str(refused)
    assert CANARY not in repr(refused)
    assert CANARY not in "".join(traceback.format_exception(refused))
    assert CANARY.encode() not in pickle.dumps(refused)
