"""How long do requests take by service, and which service is the slowest? Use the log."""

import re

from servers.calc import math
from servers.filesystem import read_text_file

log = read_text_file(path="{files}/app.log")["content"]
times = {}
for service, took in re.findall(r" (\w+) request \d+ took (\d+) ms", log):
    times.setdefault(service, []).append(int(took))
report = {}
for service, values in times.items():
    figures = math(action="statistics", values=values)
    report[service] = {"mean": round(figures["mean"]), "worst": figures["max"], "spread": round(figures["stddev"])}
slowest = max(report, key=lambda name: report[name]["mean"])
{"slowest": slowest, "services": report}
