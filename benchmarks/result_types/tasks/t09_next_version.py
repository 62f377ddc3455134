"""Is each of these releases compatible with ^1.4.0, and what is the next minor version after the newest?"""

from functools import cmp_to_key

from servers.calc import semver

releases = ["1.10.0", "1.4.2", "2.0.0-rc.1", "1.9.9"]
fits = {text: semver(action="satisfies", version=text, range="^1.4.0")["satisfies"] for text in releases}
newest = max(
    (text for text in releases if fits[text]),
    key=cmp_to_key(lambda a, b: semver(action="compare", version=a, version2=b)["result"]),
)
parsed = semver(action="parse", version=newest)
{"fits": fits, "next": f"{parsed['major']}.{parsed['minor'] + 1}.0"}
