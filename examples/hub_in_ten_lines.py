"""A hub in ten lines: who wants to know, what happened, who gets it.

Run it: python examples/hub_in_ten_lines.py
"""

from nearcast import Box, Circle, Hub, Message, Within

hub = Hub("earth")
hub.subscribe(Within("anna", "(ramen OR udon) NOT instant", Circle(13.405, 52.520, 1500)))  # lon, lat, metres
hub.subscribe(Within("bert", '"street food"', Box(13.30, 52.45, 13.50, 52.55)))  # west, south, east, north
hub.subscribe(Within("cleo", "#berlin"))  # anywhere

post = Message("m1", "Street food tonight: ramen and beer #Berlin", (13.41, 52.51))
for delivery in hub.publish(post):
    print(delivery.subscription_id, "gets", delivery.message_id)
