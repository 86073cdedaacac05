"""Rows of subscriptions that have moved: lists by (term, cell) that change in place, with back pointers.

`lists` has the lists, `rows` the rows and how they are entered, moved and dropped, `search` the search for messages,
`component` the part of an index that is made of them.
"""
