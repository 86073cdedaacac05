"""The peers there are, in the order of the report."""

from __future__ import annotations

from nearcast.bench.peers.contract import Peer
from nearcast.bench.peers.duckdb_join import DuckDbPeer
from nearcast.bench.peers.lucene import LuceneCellsPeer, LucenePeer
from nearcast.bench.peers.nearcast_hub import NearcastPeer
from nearcast.bench.peers.postgis import PostgisPeer
from nearcast.bench.peers.rarest_word import RarestWordPeer
from nearcast.bench.peers.shapely_tree import ShapelyPeer

PEERS: tuple[type[Peer], ...] = (
    NearcastPeer,
    RarestWordPeer,
    ShapelyPeer,
    DuckDbPeer,
    PostgisPeer,
    LucenePeer,
    LuceneCellsPeer,
)
#: The race of top-k answers, beside the names of the peers.
TOPK = "topk"
TOPK_ABOUT = "a hub over top-k subscriptions, beside DuckDB that computes all answers again every second"
