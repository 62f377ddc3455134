"""Which characters of this product name are not plain ASCII, and from which script do they come?"""

from servers.calc import char_info, count

name = "Lаmp ‘Ø’ 漢"
odd = []
for grapheme in char_info(char=name):
    for point in grapheme["codePoints"]:
        if point["decimal"] > 127:
            odd.append(f"{point['char']} {point['hex']} {point['block']}")
sizes = count(text=name)
{"odd": odd, "characters": sizes["characters"], "bytes": sizes["bytes"]}
