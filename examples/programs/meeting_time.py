"""Is 15:00 in Berlin a working hour elsewhere? Calls one tool for several cities; a city that fails spoils no other."""

from servers.time import convert_time

CITIES = ["America/New_York", "Europe/London", "Asia/Tokyo", "Nowhere/Atlantis"]

answers = convert_time.map(
    [{"source_timezone": "Europe/Berlin", "time": "15:00", "target_timezone": city} for city in CITIES]
)
for number, (city, answer) in enumerate(zip(CITIES, answers, strict=True)):
    print(city, answer["target"]["datetime"][11:16] if answer else answers.errors[number])
