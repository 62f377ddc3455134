"""Who has committed to the shop's repository, how often, and when last?"""

from collections import defaultdict
from datetime import UTC, datetime

from servers.cyangit import git_log

log = git_log(path="{repository}", maxCount=100)
by_author = defaultdict(list)
for commit in log["commits"]:
    by_author[commit["author"]].append(commit["timestamp"])

print(log["totalCount"], "commits")
{
    author: {"commits": len(times), "last": datetime.fromtimestamp(max(times), UTC).date().isoformat()}
    for author, times in sorted(by_author.items())
}
