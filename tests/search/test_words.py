"""A text → terms: what is one word, what is left out, and what of a query is looked for besides."""

from __future__ import annotations

import pytest

from codemode_server.search.words import joined_terms, query_terms, stem, terms, without_values


def stems(text: str) -> list[str]:
    return [term for term in terms(text) if term[0] != "="]


class TestWords:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("create_issue", ["creat", "issu"]),
            ("listPullRequests", ["list", "pull", "request", "listpullrequest"]),
            ("API-post-page", ["api", "post", "page"]),
            ("the files in a folder", ["file", "folder"]),
            ("créer une página", ["creer", "une", "pagina"]),
            ("搜索关键词", ["搜索", "索关", "关键", "键词"]),
            ("v2 2026", ["v", "2", "2026"]),
            ("", []),
            ("!!! ---", []),
        ],
    )
    def test_of_a_text(self, text: str, found: list[str]) -> None:
        assert stems(text) == found

    def test_a_name_in_capitals_and_small_letters_is_one_word_and_its_parts(self) -> None:
        assert "mysql" in stems("MySQL")
        assert set(stems("mysql servers")) <= set(stems("MySQL servers"))

    def test_each_word_is_there_as_written_beside_its_stem(self) -> None:
        assert list(terms("issues")) == ["issu", "=issues"]

    def test_a_word_without_end_is_cut(self) -> None:
        assert max(map(len, terms("x" * 100_000))) <= 101


@pytest.mark.parametrize(
    "words",
    [
        ("list", "lists", "listed", "listing"),
        ("create", "creates", "created", "creating", "creation"),
        ("query", "queries", "queried"),
        ("search", "searches", "searching"),
        ("stop", "stopped", "stopping"),
    ],
)
def test_forms_of_a_word_have_one_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


class TestQueries:
    def test_a_word_said_often_counts_more_but_never_much_more(self) -> None:
        once, twice, often = (query_terms("issue " * times)["issu"] for times in (1, 2, 50))
        assert once < twice < often < 3 * once

    def test_two_words_together_are_looked_for_as_one(self) -> None:
        assert "keyvault" in query_terms("the keys of a key vault")
        assert joined_terms("key_vault_list") == ["keyvault", "vaultlist"]

    def test_values_are_left_out_where_other_words_remain(self) -> None:
        assert without_values("Replace the text 'Q3 sales' on slide 2").split() == [
            "Replace",
            "the",
            "text",
            "on",
            "slide",
        ]
        assert without_values('"create_issue"') == '"create_issue"'

    def test_a_placeholder_is_no_word_of_the_request(self) -> None:
        assert query_terms("delete <resource_group_name> now") == query_terms("delete now")
