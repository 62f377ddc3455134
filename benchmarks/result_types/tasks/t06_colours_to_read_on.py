"""Of the brand's colours, which are dark enough for white text? Give them as hex."""

from servers.calc import color

dark = {}
for text in ("rgb(20, 40, 90)", "hsl(45, 100%, 60%)", "#7a1f1f", "#e0f0ff"):
    found = color(color=text)
    values = found["values"]
    brightness = (values["r"] * 299 + values["g"] * 587 + values["b"] * 114) / 1000
    if brightness < 128:
        dark[found["hex"]] = {"hsl": found["hsl"], "brightness": round(brightness)}
dark
