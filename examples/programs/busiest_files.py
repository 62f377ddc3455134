"""Which files change most often? Reads the diffs of many commits at once and returns ten lines."""

import asyncio
import re
from collections import Counter

from servers.git import git_log, git_show

REPOSITORY = "."

log = git_log(repo_path=REPOSITORY, max_count=100)
commits = re.findall(r"^Commit: (\w+)", log, re.MULTILINE)
diffs = await asyncio.gather(*[git_show(repo_path=REPOSITORY, revision=commit) for commit in commits])
changes = Counter(name for diff in diffs for name in re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE))
changes.most_common(10)
