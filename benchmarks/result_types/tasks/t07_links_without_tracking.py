"""Clean these links of tracking parameters, and tell those that are not encrypted or carry a password."""

from servers.calc import url_parse

links = [
    "https://shop.example/lamps?id=7&utm_source=mail",
    "http://old.example/x?utm_medium=web",
    "https://ada:secret@files.example/list",
]
cleaned, warnings = [], []
for link in links:
    url = url_parse(url=link)
    kept = {name: value for name, value in (url["searchParams"] or {}).items() if not name.startswith("utm_")}
    query = "&".join(f"{name}={value}" for name, value in kept.items())
    cleaned.append(url["origin"] + url["pathname"] + (f"?{query}" if query else ""))
    if url["protocol"] != "https:" or url["password"]:
        warnings.append(url["hostname"])
{"links": cleaned, "warnings": warnings}
