"""Is anything in the working tree not committed, and how large is it?"""

from servers.cyangit import git_diff, git_status

status = git_status(path="{repository}")
report = {"branch": status["currentBranch"], "is_clean": status["isClean"]}
if not status["isClean"]:
    diff = git_diff(path="{repository}")
    changes = status["unstagedChanges"]
    report["changed"] = changes.get("modified", []) + changes.get("deleted", [])
    report["new"] = status["untrackedFiles"]
    report["lines"] = diff["insertions"] - diff["deletions"]
report
