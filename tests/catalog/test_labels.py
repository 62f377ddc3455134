"""Labels that are guessed from annotations, names and parameters, compared with labels that a person gave the tools of
published servers. A guess may miss a label, and should seldom give a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode_server.catalog.labels import PRIVATE, PUBLIC_SINK, UNTRUSTED, guess_labels, guess_resource_labels
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.upstreams._listing import effect_of

from .conftest import SHARED

BY_HAND: dict[str, dict[str, str]] = {
    "modelcontextprotocol__server-github": {
        "public-sink": "create_or_update_file create_repository push_files create_issue create_pull_request "
        "update_issue add_issue_comment create_pull_request_review merge_pull_request",
        "private": "search_code search_repositories list_commits",
        "private untrusted": "get_file_contents get_pull_request_files",
        "untrusted": "list_issues search_issues get_issue get_pull_request list_pull_requests "
        "get_pull_request_comments get_pull_request_reviews search_users",
        "": "fork_repository create_branch get_pull_request_status update_pull_request_branch",
    },
    "modelcontextprotocol__server-slack": {
        "private untrusted": "slack_get_channel_history slack_get_thread_replies",
        "private": "slack_list_channels slack_get_users slack_get_user_profile",
        "public-sink": "slack_post_message slack_reply_to_thread",
        "": "slack_add_reaction",
    },
    "modelcontextprotocol__server-filesystem": {
        "private": "read_file read_text_file read_media_file read_multiple_files list_directory directory_tree "
        "list_directory_with_sizes search_files get_file_info",
        "": "write_file edit_file create_directory move_file list_allowed_directories",
    },
    "modelcontextprotocol__server-memory": {
        "private": "read_graph search_nodes open_nodes",
        "": "create_entities create_relations add_observations delete_entities delete_observations delete_relations",
    },
    "modelcontextprotocol__server-google-maps": {
        "": "maps_geocode maps_reverse_geocode maps_search_places maps_place_details maps_distance_matrix "
        "maps_elevation maps_directions",
    },
    "mcp-server-fetch": {"public-sink untrusted": "fetch"},
    "markitdown-mcp": {"public-sink untrusted": "convert_to_markdown"},
    "mcp-server-time": {"": "get_current_time convert_time"},
    "mcp-server-sqlite": {
        "private": "read_query",
        "": "write_query create_table list_tables describe_table append_insight",
    },
    "mcp-server-git": {
        "private": "git_log git_diff git_diff_staged git_diff_unstaged git_show git_status git_branch",
        "": "git_commit git_add git_reset git_create_branch git_checkout",
    },
    "notionhq__notion-mcp-server": {
        "private": "API-get-users API-get-user API-post-search API-get-block-children API-retrieve-a-block "
        "API-retrieve-a-page API-retrieve-a-page-property API-query-data-source API-retrieve-page-markdown "
        "API-retrieve-a-comment",
        "public-sink": "API-create-a-comment API-post-page API-patch-page API-update-page-markdown API-update-a-block "
        "API-patch-block-children",
        "": "API-get-self API-retrieve-a-data-source API-retrieve-a-database API-delete-a-block API-move-page "
        "API-list-data-source-templates",
    },
    "playwright__mcp": {
        "public-sink untrusted": "browser_navigate browser_tabs browser_evaluate",
        "untrusted": "browser_snapshot browser_take_screenshot browser_console_messages browser_find",
        "private": "browser_cookie_list browser_cookie_get browser_localstorage_get browser_storage_state",
        "public-sink": "browser_type browser_fill_form browser_file_upload browser_run_code_unsafe",
        "": "browser_close browser_resize browser_click browser_hover browser_wait_for browser_cookie_set",
    },
    "hubspot__mcp-server": {
        "private": "hubspot-list-objects hubspot-search-objects hubspot-batch-read-objects hubspot-get-engagement "
        "hubspot-get-user-details hubspot-list-associations",
        "": "hubspot-list-properties hubspot-get-property hubspot-get-schemas hubspot-get-link "
        "hubspot-batch-create-objects hubspot-update-property",
    },
    "azure__mcp": {
        "public-sink": "communication_email_send communication_sms_send",
        "private": "keyvault_secret_get storage_blob_get cosmos_database_container_item_query kusto_query "
        "mysql_database_query postgres_database_query monitor_resource_log_query monitor_workspace_log_query "
        "deploy_app_logs_get",
        "": "advisor_recommendation_list bicepschema_get storage_account_get sql_server_get aks_cluster_get "
        "storage_table_list compute_vm_create deploy_iac_rules_get",
    },
    "mcp-atlassian": {
        "private untrusted": "jira_get_issue jira_get_queue_issues jira_download_attachments",
        "private": "jira_search jira_get_worklog confluence_search confluence_get_page confluence_get_page_children",
        "public-sink": "jira_create_issue jira_update_issue jira_add_comment confluence_add_comment "
        "confluence_upload_attachment confluence_create_page confluence_update_page",
        "": "jira_search_fields jira_get_link_types jira_delete_issue confluence_add_label jira_get_transitions",
    },
}
MIN_PRECISION = {PRIVATE: 0.9, UNTRUSTED: 0.9, PUBLIC_SINK: 0.9}
MIN_RECALL = {PRIVATE: 0.65, UNTRUSTED: 0.75, PUBLIC_SINK: 0.65}


def definition(raw: dict[str, Any]) -> ToolDefinition:
    hints = raw.get("annotations") or {}
    is_closed = hints.get("openWorldHint") is False
    schema = raw.get("inputSchema", {})
    return ToolDefinition(raw["name"], input_schema=schema, effect=effect_of(hints), is_closed_world=is_closed)


@pytest.fixture(scope="module")
def compared() -> list[tuple[str, set[str], set[str]]]:
    """Each tool with the labels by hand and those that are guessed."""
    rows = []
    for server, by_labels in BY_HAND.items():
        file = next((SHARED / "toolsets").glob(f"*{server}.json"), None)
        if file is None:
            pytest.skip(f"no captured tool lists in {SHARED / 'toolsets'}")
        listed = {it["name"]: definition(it) for it in json.loads(file.read_text())["tools"]}
        for labels, names in by_labels.items():
            for name in names.split():
                guessed = guess_labels(server.partition("__")[2] or server, listed[name])
                rows.append((f"{server}/{name}", set(labels.split()), set(guessed)))
    return rows


@pytest.mark.parametrize("label", [PRIVATE, UNTRUSTED, PUBLIC_SINK])
def test_guesses_are_seldom_wrong(compared: list[tuple[str, set[str], set[str]]], label: str) -> None:
    right = [name for name, by_hand, guessed in compared if label in by_hand & guessed]
    wrong = [name for name, by_hand, guessed in compared if label in guessed - by_hand]
    missed = [name for name, by_hand, guessed in compared if label in by_hand - guessed]
    precision, recall = len(right) / len([*right, *wrong]), len(right) / len([*right, *missed])
    print(f"{label}: {len(right)} right, wrong {wrong}, missed {missed}: {precision:.2f}, {recall:.2f}")
    assert precision >= MIN_PRECISION[label], wrong
    assert recall >= MIN_RECALL[label], missed


@pytest.mark.parametrize(
    ("server", "tool", "labels"),
    [
        ("mail", "searchEmails", {PRIVATE, UNTRUSTED}),
        ("mail", "send_email", {PUBLIC_SINK}),
        ("social", "PublishPost", {PUBLIC_SINK}),
        ("github", "get_issue", {UNTRUSTED}),
        ("warehouse", "query", {PRIVATE}),
        ("math", "add", set()),
        ("github", "get_issue_types", set()),
    ],
)
def test_names_in_any_style_are_read(server: str, tool: str, labels: set[str]) -> None:
    assert guess_labels(server, ToolDefinition(tool)) == labels


def test_a_tool_of_a_closed_world_neither_reads_strangers_texts_nor_sends_anything_out() -> None:
    for is_closed_world, labels in ((False, {PUBLIC_SINK}), (True, set())):
        assert guess_labels("mail", ToolDefinition("send_email", is_closed_world=is_closed_world)) == labels


def test_what_a_tool_says_of_its_effect_goes_before_a_verb_that_means_both() -> None:
    for effect, labels in ((Effect.UNKNOWN, set()), (Effect.READS, {PRIVATE})):
        assert guess_labels("files", ToolDefinition("file", effect=effect)) == labels


def test_the_address_of_a_resource_says_where_it_is() -> None:
    assert guess_resource_labels("https://example.com/a", is_expanded=False) == {UNTRUSTED}
    assert guess_resource_labels("https://example.com/a", is_expanded=True) == {UNTRUSTED, PUBLIC_SINK}
    assert guess_resource_labels("file:///etc/hosts", is_expanded=True) == {PRIVATE}
    assert guess_resource_labels("note://one", is_expanded=True) == set()
