"""Messages that live for a while, and stores of them that answer what is relevant to a subscription at a place.

`contract` is what a store promises, `registry` knows the stores by name: `scan` is the definition, `cells` ours.
`table` has the columns of live messages, `stored` what all stores do with them, `answers` the columns that they return,
`safe` the distances that a region may go without any change.
"""
