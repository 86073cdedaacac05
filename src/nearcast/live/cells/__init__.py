"""The live store `cells`: posting lists by word, each in the order of a quadtree's cells, searched cell by cell.

`segments` builds the lists, `queries` prepares subscriptions, `walk` goes down the cells of one list, `search` finds
the messages of each subscription and `safe_search` the nearest message that a move could change; `store` ties these
together.
"""
