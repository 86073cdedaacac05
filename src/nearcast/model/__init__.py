"""The values people hand in and get back: messages, the three kinds of subscription, and deliveries.

They are frozen and validated when made, so whatever holds one need not check it again. What depends on the space
(a latitude of 91 is fine on a plane) is checked by `check(space)`, which the hub calls.
"""

from nearcast.columns import MAX_K
from nearcast.model.dicts import message_from, subscription_from
from nearcast.model.values import (
    SIMILARITIES,
    Delivery,
    Message,
    Similar,
    Subscription,
    TopK,
    Within,
    checked_time,
    unreachable,
)

__all__ = [
    "MAX_K",
    "SIMILARITIES",
    "Delivery",
    "Message",
    "Similar",
    "Subscription",
    "TopK",
    "Within",
    "checked_time",
    "message_from",
    "subscription_from",
    "unreachable",
]
