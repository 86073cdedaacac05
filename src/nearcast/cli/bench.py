"""`nearcast bench`: time the indexes, having checked their answers; or redo a paper's experiments and draw them."""

from __future__ import annotations

import typer

from nearcast.cli.bench_boolean import boolean
from nearcast.cli.bench_calls import calls
from nearcast.cli.bench_cluster import cluster
from nearcast.cli.bench_durable import durable
from nearcast.cli.bench_figures import figures
from nearcast.cli.bench_first_use import first_use
from nearcast.cli.bench_moving import moving
from nearcast.cli.bench_peers import peers
from nearcast.cli.bench_server import server
from nearcast.cli.bench_similar import similar
from nearcast.cli.bench_spark import spark
from nearcast.cli.bench_topk import topk

app = typer.Typer(help="Time the indexes; the answers are checked first.")


@app.callback()
def bench() -> None:
    """Time the indexes; the answers are checked first."""


app.command("similar")(similar)
app.command("topk")(topk)
app.command("boolean")(boolean)
app.command("moving")(moving)
app.command("calls")(calls)
app.command("durable")(durable)
app.command("server")(server)
app.command("peers")(peers)
app.command("spark")(spark)
app.command("cluster")(cluster)
app.command("figures")(figures)
app.command("first-use")(first_use)
