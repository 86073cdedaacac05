"""Location-aware publish/subscribe: standing requests of words and a place, and the messages that satisfy them.

>>> from nearcast import Box, Hub, Message, Within
>>> hub = Hub()
>>> hub.subscribe(Within("anna", "ipad discount", Box(13.3, 52.4, 13.5, 52.6)))
'anna'
>>> hub.publish(Message(1, "Discount on every iPad today", (13.4, 52.5)))[0].subscription_id
'anna'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearcast.deliveries import Deliveries
from nearcast.delivery_ids import delivery_id
from nearcast.errors import (
    FileMissing,
    FileUnavailable,
    IncompatibleStore,
    InvalidColumns,
    InvalidInput,
    InvalidMessage,
    InvalidQuery,
    InvalidRegion,
    InvalidSubscription,
    NearcastError,
    NotSupported,
    UnknownIndex,
    UnknownSubscription,
)
from nearcast.explain import Explanation
from nearcast.geo import Area, Box, Circle, Space
from nearcast.hub import Hub
from nearcast.model import Delivery, Message, Similar, TopK, Within
from nearcast.query import parse
from nearcast.text import Analyzer, Vocabulary

if TYPE_CHECKING:
    from nearcast.client import AsyncClient, Client

__version__ = "0.1.0"

__all__ = [
    "Analyzer",
    "Area",
    "AsyncClient",
    "Box",
    "Circle",
    "Client",
    "Deliveries",
    "Delivery",
    "Explanation",
    "FileMissing",
    "FileUnavailable",
    "Hub",
    "IncompatibleStore",
    "InvalidColumns",
    "InvalidInput",
    "InvalidMessage",
    "InvalidQuery",
    "InvalidRegion",
    "InvalidSubscription",
    "Message",
    "NearcastError",
    "NotSupported",
    "Similar",
    "Space",
    "TopK",
    "UnknownIndex",
    "UnknownSubscription",
    "Vocabulary",
    "Within",
    "__version__",
    "delivery_id",
    "parse",
]


def __getattr__(name: str) -> Any:
    """Import the clients when they are first used: they need the extra `client`."""
    if name in ("AsyncClient", "Client"):
        return getattr(import_module("nearcast.client"), name)
    raise AttributeError(f"module 'nearcast' has no attribute {name!r}")
