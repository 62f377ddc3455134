"""Where is it warmest of New York, Chicago and Los Angeles, and is the picture of the day a PNG?"""

import asyncio

from servers.everything import get_structured_content, get_tiny_image

cities = ("New York", "Chicago", "Los Angeles")
reports = await asyncio.gather(*[get_structured_content(location=city) for city in cities])
warmest = max(zip(cities, reports), key=lambda pair: pair[1]["temperature"])
image = next(part for part in await get_tiny_image() if not isinstance(part, str))
{"city": warmest[0], "sky": warmest[1]["conditions"], "humidity": warmest[1]["humidity"], "png": image.mime_type}
