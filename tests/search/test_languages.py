"""Queries in other languages: their commonest words become English, and all else stays as it is."""

from __future__ import annotations

import pytest

from benchmarks.search.corpora import PUBLIC, Missing, corpus
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.model import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.dictionaries import SPACED, UNSPACED, dictionary
from codemode_server.search.documents import collections
from codemode_server.search.languages import in_english
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank

SAID = [
    # German: inflected forms, umlauts written out, compounds
    ("Lösche die alten Dateien aus dem Ordner", "delete the old files from the folder"),
    ("loesche den Kanal", "delete the channel"),
    ("Füge eine neue Tabellenzeile hinzu", "add a new table row"),
    ("Wetterbericht für Köln", "weather report for Köln"),
    ("Rechnungsnummer suchen", "invoice number search"),
    # French: elisions, hyphens, words of several parts
    ("Montre-moi les messages de l'utilisateur", "show me the messages of the user"),
    ("mets à jour la base de données", "update the database"),
    ("envoyer un courriel aux clients", "send a email to customers"),
    # Spanish: pronouns at the verb, plurals
    ("Muéstrame los mensajes del canal", "show the messages of channel"),
    ("crear una hoja de cálculo nueva", "create a spreadsheet new"),
    ("cuáles son las reuniones de mañana", "which are the meetings of tomorrow"),
    # Portuguese
    ("Liste os arquivos da pasta", "list the files of folder"),
    ("baixe o relatório em anexo", "download the report in attachment"),
    # Italian
    ("Mostrami le fatture dei clienti", "show the invoices of customers"),
    ("traduci il documento in inglese", "translate the document in English"),
    # Russian
    ("удали файлы из папки", "delete files from folder"),
    ("создай новую задачу в проекте", "create new task in project"),
    # Chinese: running text, the longest word first, traditional letters
    ("把文件移动到文件夹", "file move to folder"),
    ("创建一个折线图", "create a line chart"),
    ("刪除資料庫", "delete database"),
    ("將100美元換算成日元", "100 USD convert to JPY"),
    # Japanese: particles, verbs in the forms of requests
    ("メールを送ってください", "email send"),
    ("Slackのチャンネルを作成する", "Slack channel create"),
    # Korean: particles behind words
    ("파일을 삭제해 주세요", "file delete"),
]


@pytest.mark.parametrize(("query", "english"), SAID)
def test_the_commonest_words_of_a_query_become_english(query: str, english: str) -> None:
    assert in_english(query) == english


@pytest.mark.parametrize(
    "query",
    [
        "Show me the keys in the vault",
        "list files",
        "delete message from table",
        "search for restaurants near Los Angeles",
        "play La Casa de Papel",
        "find the book El amor en los tiempos del cólera",
        "flights to São Paulo",
        "translate 你好 into English",
        "die alter gross in the film",
        "key_create",
        "mysql server param set",
        "",
        "   ",
        "qwertz 😀 123",
    ],
)
def test_a_query_in_english_is_the_same_object(query: str) -> None:
    assert in_english(query) is query


@pytest.mark.parametrize(
    "value",
    [
        '"crear tabla"',
        "'crear  tabla'",
        "„neue Datei“",
        "«fichier  nouveau»",
        "`datei`",
        "crear_tabla",
        "archivo.txt",
        "/home/usuario/archivo",
        "https://example.com/archivo?buscar=tabla",
        "usuario@ejemplo.es",
        "crearTabla",
        "#mensajes",
        "<archivo nuevo>",
        "TABLA",
    ],
)
def test_values_and_identifiers_stay_as_they_are(value: str) -> None:
    assert in_english(f"buscar {value} en la carpeta") == f"search {value} in the folder"


@pytest.mark.parametrize(
    ("query", "value"), [("删除「文件」", "「文件」"), ("检索《日历》。", "《日历》"), ("打开“数据 库”", "“数据 库”")]
)
def test_values_in_chinese_quotation_marks_stay_as_they_are(query: str, value: str) -> None:
    assert in_english(query) != query
    assert value in in_english(query)


def test_a_name_within_a_sentence_stays_as_it_is() -> None:
    assert in_english("envía el archivo al canal Nuevo Mensaje") == "send the file to channel Nuevo Mensaje"


def test_a_word_of_two_languages_is_read_as_the_rest_of_the_query_is() -> None:
    assert in_english("enviar os dados da fatura") == "send the data of invoice"
    assert in_english("mostrami la data della riunione") == "show the date of meeting"


def test_a_word_that_is_english_too_tells_no_language_but_follows_the_others() -> None:
    assert in_english("canal note table") == "canal note table"
    assert in_english("supprimer canal") == "delete channel"


def test_a_word_that_tools_say_themselves_stays_around_its_english() -> None:
    assert in_english("Rechnung löschen", {"rechnung"}.__contains__) == "rechnung invoice rechnung delete"
    assert in_english("查询天气", {"天气"}.__contains__) == "query 天气 weather 天气"


@pytest.mark.parametrize("name", PUBLIC)
def test_no_english_query_of_the_public_sets_changes(name: str) -> None:
    try:
        queries = corpus(name).queries
    except Missing as reason:
        pytest.skip(str(reason))
    assert [query.text for query in queries if in_english(query.text) is not query.text] == []


def test_what_is_said_in_english_is_the_same_whichever_query_came_before() -> None:
    first = [in_english(query) for query, _ in SAID]
    assert [in_english(query) for query, _ in reversed(SAID)] == first[::-1]


@pytest.mark.parametrize(
    "query",
    [
        "crear " * 2_000,
        "crear " + "'" * 10_000,
        "crear " + "“" * 10_000,
        "crear " + "<" * 10_000,
        "crear " + "!" * 10_000,
        "crear " + "a+" * 5_000,
        "ä" * 10_000,
        "的" * 10_000,
        "の" * 10_000,
        "创建 crear создать 파일 ファイル 😀 " * 400,
        "e\u0301\u0300" * 3_000,
        "\ud800 crear \x00 tabla",
        "Balken" * 1_500,
    ],
    ids=lambda query: ascii(query[:12]),
)
def test_huge_and_odd_queries_are_read_up_to_a_limit(query: str) -> None:
    changed = in_english(query)
    assert changed is query or changed.endswith(query[2_000:])


@pytest.mark.parametrize("name", [*SPACED, *UNSPACED])
def test_what_words_mean_is_plain_english(name: str) -> None:
    meanings = {meaning.english for meaning in dictionary(name).words.values()}
    assert [english for english in meanings if not english.replace(" ", "").isalpha() and english] == []
    assert all(english.isascii() for english in meanings)
    assert len(meanings) > 150


def test_a_tool_that_is_described_in_another_language_is_still_found_in_it() -> None:
    assert best("查询车票", ("query", "Runs SQL."), ("tickets", "查询火车票和车票信息。")) == "tickets"


def test_a_tool_in_english_is_found_in_another_language() -> None:
    assert (
        best("Lösche den Ordner", ("create_folder", ""), ("delete_folder", ""), ("delete_user", "")) == "delete_folder"
    )
    assert best("删除文件夹", ("create_folder", ""), ("delete_folder", ""), ("delete_user", "")) == "delete_folder"


def best(query: str, *named: tuple[str, str]) -> str | None:
    """The name of the tool that a search by words puts first."""
    tools = tuple(ToolDefinition(name, description) for name, description in named)
    catalog = Catalog.build([UpstreamListing("server", UpstreamState.READY, tools)])
    found = rank(LexicalIndex(collections(catalog)), (), query, None, 10)
    return found[0].thing.name if found and isinstance(found[0].thing, Tool) else None
