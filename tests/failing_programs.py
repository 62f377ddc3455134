"""Twenty usual ways in which programs of models fail, by name."""

from __future__ import annotations

FAILURES = {
    "a key": "from servers.github import list_issues\n[i['titel'] for i in list_issues(repo='a/b')]",
    "a key of a variable": "from servers.github import list_issues\nx = list_issues(repo='a/b')\nx[0]['titel']",
    "an attribute": "from servers.github import list_issues\nx = list_issues(repo='a/b')\nx[0].title",
    "a list taken for a dict": "from servers.github import list_issues\nx = list_issues(repo='a/b')\nx['items']",
    "text taken for JSON": "import json\njson.loads('some text')",
    "a tool's error": "from servers.github import boom\nboom()",
    "an effect before": "from servers.github import create_issue, boom\n"
    "create_issue(owner='o', repo='r', title='t')\nboom()",
    "many effects before": "from servers.github import create_issue, boom\n"
    "for n in range(30): create_issue(owner='o', repo='r', title=f't{n}')\nboom()",
    "a wrong type": "from servers.github import create_issue\ncreate_issue(**{'owner': 'o', 'repo': 'r', 'title': 7})",
    "an unknown argument": "from servers.github import create_issue\ncreate_issue(owner='o', repo='r', titel='x')",
    "an unknown tool": "from servers.github import create_isue",
    "a missing module": "import pandas",
    "no Python": "x = [1, 2\nprint(x)",
    "an unknown name": "x = list_isues()",
    "nothing there": "x = None\nx['a']",
    "a cause": "try: {}['a']\nexcept KeyError as e: raise ValueError('no') from e",
    "endless recursion": "def f(n): return f(n + 1)\nf(0)",
    "too long": "while True: pass",
    "too much printed": "while True: print('x' * 1_000)",
    "too much memory": "x = 'x' * 500_000_000",
}
