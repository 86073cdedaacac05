"""Movement of objects: trips over a road network, or recorded trajectories.

`movement` has the value that others take. `roads` reads road networks from data files, `town` makes one up,
`fastest_paths` has shortest-path trees and classes of roads, `trips` lets objects travel, in the manner of Brinkhoff's
generator (GeoInformatica 2002). `replay` repeats recorded trajectories.
"""
