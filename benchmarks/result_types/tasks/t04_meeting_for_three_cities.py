"""When is the weekly meeting (Mondays at 9 in Berlin) in New York and Tokyo, and when are the next three?"""

from servers.calc import cron_parse
from servers.time import convert_time

times = {}
for zone in ("America/New_York", "Asia/Tokyo"):
    answer = convert_time(source_timezone="Europe/Berlin", time="09:00", target_timezone=zone)
    times[zone] = {"time": answer["target"]["datetime"][11:16], "apart": answer["time_difference"]}
dates = cron_parse(expression="0 9 * * 1", timezone="Europe/Berlin", count=3)
print(dates["description"])
{"times": times, "next": len(dates["nextOccurrences"])}
