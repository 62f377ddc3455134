"""How many lines did each commit add, by the plain git server?"""

import asyncio
import re

from servers.git import git_log, git_show

log = await git_log(repo_path="{repository}", max_count=20)
commits = re.findall(r"^Commit: (\w+)", log, re.M)
shown = await asyncio.gather(*[git_show(repo_path="{repository}", revision=commit) for commit in commits])
added = {}
for commit, text in zip(commits, shown):
    lines = [line for line in text.splitlines() if line.startswith("+") and not line.startswith("+++")]
    added[commit[:7]] = len(lines)
sorted(added.items(), key=lambda pair: -pair[1])[:3]
