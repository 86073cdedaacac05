"""Durable hubs: every input of a hub as bytes of a write-ahead log, and a hub made again from them.

`inputs` is one input as bytes and back, `calls` makes inputs of a hub's calls and applies them.
"""
