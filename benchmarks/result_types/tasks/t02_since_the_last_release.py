"""What has been done since the last release? Make notes for the next one."""

from servers.cyangit import git_log, git_tag

tags = git_tag(path="{repository}")["tags"]
newest = max(tags, key=lambda tag: tag["timestamp"])
commits = git_log(path="{repository}", maxCount=50)["commits"]
new = [commit for commit in commits if commit["timestamp"] > newest["timestamp"]]
lines = [f"- {commit['subject']} ({commit['shortHash']}, {commit['author']})" for commit in new]
"\n".join([f"## Since {newest['name']}: {newest['message']}", *lines])
