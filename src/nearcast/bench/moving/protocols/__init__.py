"""Protocols between moving clients and a server, simulated: how often must a client say where it is?

A `scene` has clients that move and messages that live for a while. A `server` keeps the clients told of what is
relevant where they are: `index_servers` has `always`, a report at every timestamp, and `ap+-tree-safe`, circles as safe
regions; `elaps` has regions of grid cells, with and without direction. A client reports when it leaves its safe region.
A message that falls into its impact region, whatever lies within the radius of the safe one, revokes that. `simulation`
runs a protocol over a scene and counts what is sent; `audit` compares what was told with brute force.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nearcast.errors import UnknownIndex

if TYPE_CHECKING:
    from nearcast.bench.moving.protocols.scene import Scene
    from nearcast.bench.moving.protocols.server import ProtocolServer

#: The module and the class of each protocol.
_CLASSES = {
    "always": ("nearcast.bench.moving.protocols.index_servers", "IndexServer"),
    "ap+-tree-safe": ("nearcast.bench.moving.protocols.index_servers", "SafeCircleServer"),
    "elaps": ("nearcast.bench.moving.protocols.elaps", "ElapsServer"),
    "elaps-direction": ("nearcast.bench.moving.protocols.elaps", "DirectedElapsServer"),
}
PROTOCOLS = tuple(_CLASSES)


def server_of(protocol: str, scene: Scene, index: str = "trigger") -> ProtocolServer:
    """Make the server of a protocol over an index of the subscriptions; `UnknownIndex` if there is no such protocol."""
    if protocol not in _CLASSES:
        raise UnknownIndex(f"there is no protocol {protocol!r}; choose one of {', '.join(PROTOCOLS)}")
    module, name = _CLASSES[protocol]
    made: ProtocolServer = getattr(importlib.import_module(module), name)(scene, index)
    return made
