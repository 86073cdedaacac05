"""Adds and removes single triples (node, token, item)."""

from __future__ import annotations

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.node_tokens.arrays import COUNT, FIRST, ITEMS, LIVE, PAIRS, ROOM, find, has_at

_FIRST_ROOM = 4


@hot_kernel
def holds(tokens, triples, found):
    """Tell of each triple whether its node has it."""
    for i in range(found.size):
        at = find(tokens, triples.node[i], triples.token[i])
        found[i] = has_at(tokens, triples.node[i], triples.token[i], at)


@hot_kernel
def add(tokens, triples, done):
    """Add triples from `done` on; return the first there is no room for, and how many pairs and items it needs."""
    keeps_items = tokens.list.shape[1] > 1
    keeps_rects = keeps_items and tokens.rect.shape[0] == tokens.item.size
    for i in range(done, triples.node.size):
        node, token = triples.node[i], triples.token[i]
        at = find(tokens, node, token)
        if not has_at(tokens, node, token, at):
            if tokens.length[node] == tokens.room[node]:
                needed = tokens.used[PAIRS] + max(2 * tokens.room[node], _FIRST_ROOM)
                if needed > tokens.token.size:
                    return i, needed, tokens.used[ITEMS]
                at += tokens.used[PAIRS] - tokens.first[node]
                _move_pairs(tokens, node, needed)
            _open_pair(tokens, node, token, at)
        if not keeps_items:
            tokens.list[at, COUNT] += triples.item[i]
            continue
        n = tokens.list[at, COUNT]
        if n == tokens.list[at, ROOM]:
            needed = tokens.used[ITEMS] + max(2 * n, _FIRST_ROOM)
            if needed > tokens.item.size:
                return i, tokens.used[PAIRS], needed
            _move_items(tokens, at, needed, keeps_rects)
        to = tokens.list[at, FIRST] + n
        tokens.item[to] = triples.item[i]
        if keeps_rects:
            for k in range(4):
                tokens.rect[to, k] = triples.rect[i, k]
        tokens.list[at, COUNT] = n + 1
        tokens.used[LIVE] += 1
    return triples.node.size, tokens.used[PAIRS], tokens.used[ITEMS]


@inlined
def _move_pairs(tokens, node, end):
    """Move the pairs of a node behind all others, with room up to `end`."""
    old, new = tokens.first[node], tokens.used[PAIRS]
    for j in range(tokens.length[node]):
        tokens.token[new + j] = tokens.token[old + j]
        for k in range(tokens.list.shape[1]):
            tokens.list[new + j, k] = tokens.list[old + j, k]
    tokens.first[node], tokens.room[node] = new, end - new
    tokens.used[PAIRS] = end


@inlined
def _open_pair(tokens, node, token, at):
    """Make a pair that holds nothing yet."""
    last = tokens.first[node] + tokens.length[node]
    for j in range(last, at, -1):
        tokens.token[j] = tokens.token[j - 1]
        for k in range(tokens.list.shape[1]):
            tokens.list[j, k] = tokens.list[j - 1, k]
    for k in range(tokens.list.shape[1]):
        tokens.list[at, k] = 0
    tokens.token[at] = token
    tokens.length[node] += 1


@inlined
def _move_items(tokens, at, end, keeps_rects):
    """Move the items of a pair behind all others, with room up to `end`."""
    old, new = tokens.list[at, FIRST], tokens.used[ITEMS]
    for j in range(tokens.list[at, COUNT]):
        tokens.item[new + j] = tokens.item[old + j]
        if keeps_rects:
            for k in range(4):
                tokens.rect[new + j, k] = tokens.rect[old + j, k]
    tokens.list[at, FIRST], tokens.list[at, ROOM] = new, end - new
    tokens.used[ITEMS] = end


@hot_kernel
def remove(tokens, triples):
    """Take these triples out, one by one."""
    keeps_items = tokens.list.shape[1] > 1
    keeps_rects = keeps_items and tokens.rect.shape[0] == tokens.item.size
    for i in range(triples.node.size):
        node, token = triples.node[i], triples.token[i]
        at = find(tokens, node, token)
        if not has_at(tokens, node, token, at):
            continue
        if keeps_items:
            to, last = tokens.list[at, FIRST], tokens.list[at, FIRST] + tokens.list[at, COUNT] - 1
            while to < last and tokens.item[to] != triples.item[i]:
                to += 1
            tokens.item[to] = tokens.item[last]
            if keeps_rects:
                for k in range(4):
                    tokens.rect[to, k] = tokens.rect[last, k]
            tokens.list[at, COUNT] -= 1
            tokens.used[LIVE] -= 1
        else:
            tokens.list[at, COUNT] -= triples.item[i]
        if tokens.list[at, COUNT] == 0:
            tokens.length[node] -= 1
            for j in range(at, tokens.first[node] + tokens.length[node]):
                tokens.token[j] = tokens.token[j + 1]
                for k in range(tokens.list.shape[1]):
                    tokens.list[j, k] = tokens.list[j + 1, k]
