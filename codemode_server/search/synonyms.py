"""Groups of synonyms, for queries that use another word than the tool."""

from __future__ import annotations

from functools import cache

from codemode_server.search.words import stem


def synonyms(term: str) -> frozenset[str]:
    """The synonyms of a stem; none for a literal word."""
    return _by_stem().get(term, _NONE)


_NONE: frozenset[str] = frozenset()


@cache
def _by_stem() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in _GROUPS.strip().splitlines():
        group = {stem(word) for word in line.split()}
        for word in group:
            found.setdefault(word, set()).update(group - {word})
    return {word: frozenset(others) for word, others in found.items()}


_GROUPS = """
get fetch retrieve read show view display obtain lookup find
list enumerate all
create add make new insert generate build
delete remove drop erase destroy clear purge
update edit modify change set alter patch adjust
search find query lookup seek
send post publish share dispatch
run execute invoke launch start trigger
stop cancel abort terminate kill halt end
download fetch save export
upload import load put attach
convert transform translate change
check verify validate test inspect
analyze analyse evaluate assess examine
calculate compute determine estimate
compare diff difference versus
summarize summary overview digest
picture image photo img
movie film
song track music
price cost quote rate
company business firm organization organisation
user person member account profile people
message chat dm text
email mail inbox
file document doc
folder directory dir
repository repo
issue ticket bug
pr pull merge
calendar event meeting appointment schedule
weather forecast temperature climate
map location place geo position address
route direction navigation path
stock share equity ticker
crypto cryptocurrency coin bitcoin
news article headline story
restaurant food dining
hotel accommodation lodging
flight airline plane
recipe dish meal
country nation
city town
chart graph plot diagram visualize picture
database db sql
table sheet spreadsheet
website site webpage page url web link
video clip youtube
team squad club
match game fixture
player athlete
job career vacancy position
review rating feedback
comment reply remark
buy purchase order
health medical
id identifier key
info information detail details data
latest recent newest current
trending popular top
near nearby around close
history log past historical
translate translation language
"""
