"""What a user would take instead of nearcast, raced on one workload: all of some words, inside a box.

`contract` says what a peer is, `workload` what it is loaded with and asked, `registry` which there are. A file a peer:
`nearcast_hub`, `postgis` (with `postgres_server`), `lucene` (with `java_program`, `maven` and `MonitorPeer.java`),
`duckdb_join`, `shapely_tree`, `rarest_word`. `reference` has the right answers, `race` measures one peer within a
budget, `run` all of them, `report` prints the table and `picture` draws it. `topk_race` has a hub beside DuckDB that
computes all top-k answers again every second (`duckdb_topk`).
"""
