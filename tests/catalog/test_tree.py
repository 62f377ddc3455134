"""`list_dir` and `read_tool`: the catalog as folders and files, whole texts as a model gets them."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import Entry, Tree
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState

GITHUB = UpstreamListing(
    "github",
    UpstreamState.READY,
    (
        ToolDefinition("list_issues", "List issues. With filters.", effect=Effect.READS),
        ToolDefinition("create_issue", "Create an issue\n\nNeeds a token.", effect=Effect.WRITES),
        ToolDefinition("get-me", title="Who am I"),
    ),
    description="Issues and pull requests. More text.",
)
SHEETS = UpstreamListing(
    "google-sheets", UpstreamState.FAILED, (ToolDefinition("getSheet"),), error="connection refused\n\x1b[31m",
    problems=("bad: no name",),
)  # fmt: skip
CATALOG = Catalog.build([GITHUB, SHEETS])
CREATE_ISSUE = "# /servers/github/create_issue.py\n" + CATALOG.tool("github", "create_issue").stub.source.rstrip("\n")


class TestListing:
    def test_the_root(self) -> None:
        assert Tree(CATALOG).list_dir("/").text == (
            "/ · list_dir opens these folders\n"
            "servers/  2 servers, 4 tools; a tool is a function: from servers.<server> import <tool>\n"
            "skills/  saved programs; there are none yet\n"
            "workspace/  files that programs wrote, for later programs"
        )

    def test_the_servers_with_what_is_wrong_with_those_that_are_not_there(self) -> None:
        assert Tree(CATALOG).list_dir("/servers").text == (
            "/servers · 2 servers, 4 tools\n"
            "github/  Issues and pull requests. · 3 tools\n"
            "google_sheets/  getSheet · 1 tool · unavailable: calls fail until it is back (connection refused)"
        )

    @pytest.mark.parametrize("path", ["/servers/github", "servers/github/", "/github", "github", "servers.github"])
    def test_a_server_however_it_is_written(self, path: str) -> None:
        assert Tree(CATALOG).list_dir(path).text == (
            "/servers/github · 3 tools\n"
            "create_issue.py  Create an issue (writes)\n"
            "get_me.py  Who am I\n"
            "list_issues.py  List issues. (reads)"
        )

    def test_a_large_server_comes_in_pages_and_each_says_where_the_next_is(self) -> None:
        tools = tuple(ToolDefinition(f"t{n:03}") for n in range(230))
        catalog = Catalog.build([UpstreamListing("big", UpstreamState.READY, tools)])
        pages = [Tree(catalog).list_dir(f"/servers/big?page={n}") for n in (1, 2, 3)]
        assert [page.text.count(".py") for page in pages] == [100, 100, 30]
        assert Tree(catalog).list_dir("/servers/big") == pages[0]
        assert pages[0].text.endswith('\npage 1 of 3; next: list_dir("/servers/big?page=2")')
        assert pages[2].text.endswith("\npage 3 of 3")
        with pytest.raises(MetaToolError, match='"/servers/big" has 3 pages, no page 4'):
            Tree(catalog).list_dir("/servers/big?page=4")

    def test_skills_and_workspace_are_what_they_are_said_to_be(self) -> None:
        skills = [Entry("triage.py", "Sort new issues"), Entry("digest.py")]
        assert Tree(CATALOG, skills=lambda: skills).list_dir("/skills").text == (
            "/skills · from skills.<name> import <name>\ndigest.py\ntriage.py  Sort new issues"
        )
        files = {
            (): [Entry("state", is_folder=True), Entry("report.csv", "3 kB")],
            ("state",): [Entry("cursor.json", "12 bytes"), Entry("a", is_folder=True)],
        }
        assert (
            Tree(CATALOG, workspace=files.__getitem__).list_dir("/workspace").text
            == "/workspace\nreport.csv  3 kB\nstate/"
        )
        assert Tree(CATALOG, workspace=files.__getitem__).list_dir("/workspace/state").text == (
            "/workspace/state\na/\ncursor.json  12 bytes"
        )
        assert Tree(CATALOG).list_dir("/workspace").text == "/workspace · empty"

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("/servers/githib", 'no folder "/servers/githib"; nearest: github'),
            ("create_isue", 'no folder "create_isue"; nearest: /servers/github/create_issue.py'),
            ("/create_issue", 'no folder "/create_issue"; a tool of that name is at /servers/github/create_issue.py'),
            ("/servers/github/create_issue.py", '"/servers/github/create_issue.py" is a file: read_tool('),
            ("/servers/github/create_isue.py", 'no file "/servers/github/create_isue.py": no tool "create_isue" in'),
            (
                "/etc/passwd",
                'no file or folder "/etc/passwd"; there are /servers, /servers/<server>,',
            ),
            ("/servers/../../etc/passwd", 'no file or folder "/servers/../../etc/passwd"; there are /servers,'),
            ("/servers?page=two", 'a page is a number, as in "/servers?page=2"'),
        ],
    )
    def test_a_wrong_path_is_answered_with_the_right_ones(self, path: str, message: str) -> None:
        with pytest.raises(MetaToolError) as raised:
            Tree(CATALOG).list_dir(path)
        assert str(raised.value).startswith(message)


class TestReadingWhatIsNoTool:
    """Skills and the workspace are others' to read; here is only where to find them, and the range of lines."""

    def test_a_file_of_the_workspace_keeps_its_suffix_and_its_folders(self) -> None:
        asked: list[tuple[tuple[str, ...], bool]] = []

        def read(parts: tuple[str, ...], for_some_lines: bool) -> str:
            asked.append((parts, for_some_lines))
            return "one\ntwo\nthree\n"

        [answer] = Tree(CATALOG, workspace_file=read).read_tool("/workspace/state/job.py:2-3")
        assert asked == [(("state", "job.py"), True)]
        assert answer.text == "# /workspace/state/job.py · lines 2-3 of 3\ntwo\nthree"


class TestReading:
    @pytest.mark.parametrize(
        "path",
        [
            "/servers/github/create_issue.py",
            "servers/github/create_issue",
            "github/create_issue",
            "github.create_issue",
            "servers.github.create_issue",
        ],
    )
    def test_a_tool_however_it_is_written(self, path: str) -> None:
        assert Tree(CATALOG).read_tool(path)[0].text == CREATE_ISSUE

    @pytest.mark.parametrize(("lines", "first", "last"), [("5-6", 5, 6), ("5", 5, 5), ("5-", 5, 10), ("5-999", 5, 10)])
    def test_some_of_the_lines(self, lines: str, first: int, last: int) -> None:
        all_lines = CREATE_ISSUE.split("\n")[1:]
        assert Tree(CATALOG).read_tool(f"github.create_issue:{lines}")[0].text == "\n".join(
            [
                f"# /servers/github/create_issue.py · lines {first}-{last} of {len(all_lines)}",
                *all_lines[first - 1 : last],
            ]
        )

    def test_a_tool_of_a_server_that_is_not_there_can_be_read_and_says_so(self) -> None:
        head = Tree(CATALOG).read_tool("google_sheets.getSheet")[0].text.split("\n")[0]
        assert head == (
            "# /servers/google_sheets/getSheet.py · unavailable: calls fail until it is back (connection refused)"
        )

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("", 'read_tool takes a path such as "/servers/<server>/<tool>.py"'),
            (
                "github.create_isue",
                'no file "github.create_isue": no tool "create_isue" in servers.github; nearest: create',
            ),
            ("github.create_issue:40", '"/servers/github/create_issue.py" has lines 1-10'),
            ("github.create_issue:6-5", "the range of lines ends before it begins; write it like :10-40, not :6-5"),
            ("results/x7f3a9c21b04d", "stored results are read in a program: from codemode import results"),
            ("x7f3a9c21b04d/stdout:5-8", "stored results are read in a program: from codemode import results"),
            ("/workspace/a.txt", 'no file or folder "/workspace/a.txt"; there are /servers, /servers/<server>'),
            (" ".join(["a.b"] * 21), "read_tool reads at most 20 files at once, not 21"),
        ],
    )
    def test_what_is_wrong_with_a_path_is_said(self, path: str, message: str) -> None:
        with pytest.raises(MetaToolError) as raised:
            Tree(CATALOG).read_tool(path)
        assert str(raised.value).startswith(message)
