"""Files of 16 hosts and what an import makes of each: servers, restrictions, the place of secrets, and what is told.

`host_data/<host>-<variant>` are the files: those called `written` are as the host's own command wrote them.
`host_data/expected/<file>.txt` has what is added to `upstream.yaml`, then to `.env`, then what the person is told.
After a change, `python -m tests.config.test_import_table` writes them anew: read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.config import load
from codemode_server.config.file_writing import added_variables
from codemode_server.config.host_reading import read_text
from codemode_server.config.hosts import HOSTS
from codemode_server.config.import_plan import SecretNames, plan, unite
from codemode_server.config.saving import ConfigText
from codemode_server.domain.errors import SettingsError

DATA = Path(__file__).parent / "host_data"
FILES = sorted(path for path in DATA.iterdir() if path.is_file())
ENVIRON = {"HOME": "/home/ada", "PATH": "/usr/bin"}
SECRETS = ("hush", "ghp_0123456789", "lin_api_0123456789", "ZmFrZTEyMzQ1")
"""What the secrets in the files begin with."""


def imported(path: Path, folder: Path) -> tuple[str, str, str]:
    """The three parts of an expectation."""
    name = ".claude.json" if path.name.endswith(".claude.json") else path.name
    try:
        found = read_text(path.read_bytes(), path.name, ENVIRON, Path("/home/ada") / name)
    except SettingsError as error:
        return "", "", str(error)
    servers, equal = unite(found.servers)
    storage = SecretNames({}, ENVIRON)
    made = plan(servers, {}, storage, ENVIRON, folder)
    text = ConfigText("")
    text.add_servers({addition.name: addition.entry for addition in made.additions})
    with added_variables(folder / ".env", made.secrets):
        pass
    dotenv = (folder / ".env").read_text() if made.secrets else ""
    to_set = [f"to be set: {variable}: {why}" for variable, why in made.to_set.items()]
    return text.text, dotenv, "\n".join([*found.skipped, *equal, *made.skipped, *to_set])


def expectation(parts: tuple[str, str, str]) -> str:
    yaml, dotenv, told = parts
    return f"{yaml}--- .env\n{dotenv}--- told\n{told}\n"


def expected(path: Path) -> Path:
    return DATA / "expected" / f"{path.name}.txt"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_import_makes_of_it_what_is_expected(path: Path, tmp_path: Path) -> None:
    """No secret is in the configuration, which is read and allows nothing."""
    yaml, dotenv, told = parts = imported(path, tmp_path)
    assert expectation(parts) == expected(path).read_text()

    assert not [secret for secret in SECRETS if secret in yaml + told]
    written = [secret for secret in SECRETS if secret.encode() in path.read_bytes()]
    assert not [secret for secret in written if secret not in dotenv]

    (tmp_path / "upstream.yaml").write_text(yaml)
    (tmp_path / ".env").unlink(missing_ok=True)
    loaded = load(tmp_path / "upstream.yaml", environ=ENVIRON)
    assert not [rule for rule in loaded.settings.permissions.rules if rule.allow]
    problems = " ".join(loaded.server_errors)
    assert problems.count("not set") + problems.count("not of the form") >= len(loaded.invalid_servers)


def test_every_host_has_files() -> None:
    assert {host for host in HOSTS if not any(path.name.startswith(host) for path in FILES)} == set()
    assert len(FILES) >= 40


def _written() -> Iterator[str]:
    import tempfile

    for path in FILES:
        with tempfile.TemporaryDirectory() as folder:
            expected(path).write_text(expectation(imported(path, Path(folder))))
        yield path.name


if __name__ == "__main__":
    (DATA / "expected").mkdir(exist_ok=True)
    print(*_written(), sep="\n")
