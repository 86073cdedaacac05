"""Figures 26 and 27 of the AP-Tree paper (VLDB Journal, §5.2.3): time and communication of protocols.

`run(figure, data, say)` measures a figure and yields its rows. `data` is told how to get words and movement: see
`ProtocolData`. A series is named PROTOCOL/INDEX, as in `ap+-tree-safe/trigger`.

What the paper leaves open, and what was decided:

- 1 M messages are alive at the start, and as many end as arrive, so that there are 1 M all the time. So a message lives
  for live / arrivals timestamps, 100 of them at 10 K; it cannot be 10 as in the other experiments.
- Circles have the area of the default setting, 0.01 % of the map. All clients move at every timestamp.
- Figure 27 has 10,000 subscriptions: with 10, the number of the text, counts are chance.
- Communication is all that is sent: reports, revocations, safe regions and results, each as one. It and the time, CPU
  time of the server, are those of a timestamp on the average. Registration, the first timestamp, is not part of them.

No time is reported before all protocols told the same at every timestamp, and what brute force says on a sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.encoding import EncodedWorkload
from nearcast.bench.figures.figure import Figure, Panel, Point, Row, Series
from nearcast.bench.limits import Expectation, free_memory
from nearcast.bench.moving.protocols import server_of
from nearcast.bench.moving.protocols.audit import TellingAudit, digest
from nearcast.bench.moving.protocols.scene import Scene
from nearcast.bench.moving.protocols.simulation import SentCounts, simulate
from nearcast.bench.timing import WARM_UP_SUBSCRIPTIONS, Say, spread
from nearcast.columns import Messages
from nearcast.errors import InvalidColumns, NotSupported, UnknownIndex
from nearcast.geo import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.moving.protocols.scene import Floats
    from nearcast.bench.moving.protocols.server import ProtocolServer

#: Times (T,), x (T, n) and y (T, n) of n clients at T timestamps.
Movement = tuple["NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"]

#: How long registration may take, by what the point before took, and how long timestamps go on.
REGISTER_S, TIMESTAMPS_S = 60.0, 30.0
#: The timestamps of a point, the first of which is registration, and the fewest measured however long they take.
TIMESTAMPS, FEWEST = 21, 2
#: Messages of each batch that a warm-up takes.
WARM_UP_MESSAGES = 500
#: The circle's share of the map.
AREA_SHARE = 1e-4
#: Clients that brute force is asked about, at every so manieth timestamp.
AUDITED_CLIENTS, AUDITED_EVERY = 20, 5

_MEASURED = (
    "timestamps",
    "register_s",
    "ms_per_timestamp",
    "communication",
    *SentCounts._fields,
    "bytes_per_subscription",
)


@dataclass
class ProtocolData:
    """What the figures are measured on.

    `words(n, m)` returns n boolean subscriptions and m messages in columns, as `with_all_words` makes them of a
    workload. Places of messages are scaled onto the map, those of subscriptions play no part. `movement(n, timestamps)`
    returns where n clients are, on a plane; the rectangle around all of that is the map.
    """

    words: Callable[[int, int], EncodedWorkload]
    movement: Callable[[int, int], Movement]
    seed: int = 1
    about: dict[str, Any] = field(default_factory=dict)
    _last: tuple[tuple[int, int, int, int], Scene] | None = None

    def scene(self, clients: int, arrivals: int, live: int, timestamps: int) -> Scene:
        """Return a scene with so many clients, arrivals at each timestamp and messages that are alive all the time."""
        asked = (clients, arrivals, live, timestamps)
        if self._last is None or self._last[0] != asked:
            self._last = None  # two at a time would need twice the memory
            columns = self.words(clients, live + arrivals * (timestamps - 1))
            made = scene_of(columns, self.movement(clients, timestamps), arrivals, live, self.seed)
            self._last = (asked, made)
        return self._last[1]


def with_all_words(workload: Workload) -> EncodedWorkload:
    """Return the columns of a workload, in which messages have all their words, those that nobody wants included."""
    from nearcast.tables import Rejected, read_messages, read_subscriptions, space_of
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    words, analyzer, rejected = WordTable(), Analyzer(), Rejected()
    space = space_of([*workload.subscriptions.column_names, *workload.messages.column_names], None)
    subscriptions = read_subscriptions(workload.subscriptions, space, words, analyzer, rejected=rejected)
    messages = read_messages(workload.messages, space, words, analyzer, add_words=True, rejected=rejected)
    for row in rejected:
        raise InvalidColumns(f"the workload cannot be used: {row.source} row {row.row}, {row.field}: {row.reason}")
    return EncodedWorkload(space, words, subscriptions, messages)


def scene_of(columns: EncodedWorkload, movement: Movement, arrivals: int, live: int, seed: int = 1) -> Scene:
    """Return a scene of given words and movement: `live` messages at the start, `arrivals` at each further timestamp.

    Those of the start end one after the other, as many at each timestamp as arrive.
    """
    times, x, y = movement
    box = np.array([x.min(), y.min(), x.max(), y.max()])
    batch_start = np.append(0, live + arrivals * np.arange(len(times)))
    at = np.repeat(np.arange(len(times)), np.diff(batch_start))
    step = (int(times[-1]) - int(times[0])) / max(len(times) - 1, 1)
    life = live / arrivals * step
    left = np.random.default_rng(seed).permutation(live) + 1  # which of them ends first is chance
    ends = np.append(times[0] + left * (life / live), times[at[live:]] + life)
    messages = columns.messages.take(np.arange(len(at)))
    fields = vars(messages) | {
        "box": _onto(messages.box, box),
        "time": times[at],
        "expires": np.ceil(ends).astype(np.int64),
    }
    area = (box[2] - box[0]) * (box[3] - box[1])
    return Scene(
        space=Space.plane(),
        words=columns.words,
        clients=columns.subscriptions,
        radius=np.full(len(columns.subscriptions), np.sqrt(AREA_SHARE * area / np.pi)),
        times=times,
        x=x,
        y=y,
        messages=Messages(**fields),
        batch_start=batch_start,
    )


def _onto(places: Floats, box: Floats) -> Floats:
    """Return places scaled onto a rectangle, as points."""
    low, high = np.quantile(places[:, :2], [0.001, 0.999], axis=0)
    share = np.clip((places[:, :2] - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    point = box[:2] + share * (box[2:] - box[:2])
    return np.ascontiguousarray(np.hstack([point, point]))


def run(figure: Figure, data: ProtocolData, say: Say) -> Iterator[Row]:
    """Measure every series at every point; a series that would take too long is skipped, with the reason."""
    limit = f"the limit of a figure is {REGISTER_S:g} s"
    expected = {series.spec: Expectation(REGISTER_S, limit) for series in figure.series}
    for number, point in enumerate(figure.points):
        where = f"point {number + 1} of {len(figure.points)}"
        say(f"{where}: preparing the data")
        n = max(1, round(figure.subscriptions * point.share))
        arrivals = max(1, round(figure.messages * point.options.get("arrivals", 1.0)))
        scene = data.scene(n, arrivals, max(figure.history, arrivals), TIMESTAMPS)
        known: list[int] = []
        for series in figure.series:
            say(f"{where}: {series.label}")
            head = {
                "x": arrivals if "arrivals" in point.options else n,
                "series": series.label,
                "index": series.spec,
                "subscriptions": n,
                "messages": arrivals,
            }
            yield head | measure_point(scene, series.spec, expected[series.spec], known)


def measure_point(scene: Scene, spec: str, expected: Expectation, known: list[int]) -> Row:
    """Run one protocol over a scene; return what it takes and sends, or why it was skipped.

    `known` are the hashes of what other protocols told at each timestamp, and is made longer where this one got on
    farther; `AnswersDiffer` if this one tells something else.
    """
    protocol, _, index = spec.partition("/")
    reason = expected.why_not(scene.n_clients, free_memory())
    try:
        _warm_up(scene, protocol, index)
    except (UnknownIndex, NotSupported) as error:
        reason = str(error)
    if reason is not None:
        return dict.fromkeys(_MEASURED) | {"skipped": reason}
    server = server_of(protocol, scene, index or "trigger")
    register_s, seconds, traffic = _simulated(server, spec, known)
    n_bytes, steps = server.n_bytes(), max(len(seconds), 1)
    expected.note(scene.n_clients, register_s, n_bytes)
    found = (
        len(seconds),
        round(register_s, 3),
        round(sum(seconds) * 1e3 / steps, 4),
        *(round(each / steps, 2) for each in (traffic.total, *traffic)),
        round(n_bytes / scene.n_clients, 1),
    )
    return dict(zip(_MEASURED, found, strict=True)) | {"skipped": None}


def _simulated(server: ProtocolServer, spec: str, known: list[int]) -> tuple[float, list[float], SentCounts]:
    """Run a protocol while there is time; return the seconds of registration, of each timestamp, and what was sent."""
    n = server.scene.n_clients
    audit = TellingAudit(server.scene, np.unique(spread(n, min(AUDITED_CLIENTS, n))))
    seconds: list[float] = []
    traffic, register_s, began = SentCounts(), 0.0, 0.0
    for moment in simulate(server):
        _check(spec, moment.number, digest(moment.told), known)
        is_audited = moment.number <= FEWEST or moment.number % AUDITED_EVERY == 0
        (audit.check if is_audited else audit.take)(spec, moment)
        if moment.number == 0:
            register_s, began = moment.seconds, time.perf_counter()
            continue
        traffic += moment.traffic
        seconds.append(moment.seconds)
        if len(seconds) >= FEWEST and time.perf_counter() - began > TIMESTAMPS_S:
            break
    return register_s, seconds, traffic


def _check(spec: str, at: int, told: int, known: list[int]) -> None:
    if at == len(known):
        known.append(told)
    elif known[at] != told:
        raise AnswersDiffer(f"timestamp {at}: {spec} tells other results than the protocols before; no times reported")


def _warm_up(scene: Scene, protocol: str, index: str) -> None:
    """Run a part of the scene, so that compilation is not timed."""
    few = scene.sample(WARM_UP_SUBSCRIPTIONS, WARM_UP_MESSAGES, FEWEST + 1)
    for _ in simulate(server_of(protocol, few, index or "trigger")):
        pass


_SERIES = (
    Series("AP+-tree", "always/ap+-tree"),
    Series("AP+-tree-safe", "ap+-tree-safe/ap+-tree"),
    Series("Elaps", "elaps/trigger"),
    Series("Elaps, direction", "elaps-direction/trigger"),
    Series("trigger", "always/trigger"),
    Series("trigger, safe", "ap+-tree-safe/trigger"),
)
_PANELS = (
    Panel("ms_per_timestamp", "CPU time of the server, ms per timestamp", is_log=True),
    Panel("communication", "sent per timestamp", is_log=True),
    Panel("reports", "reports per timestamp", is_log=True),
)
_CHECKED = "all protocols tell the same at every timestamp, and what brute force says on a sample of clients"
_BUDGET = (
    f"at each point a protocol has {REGISTER_S:g} s to register its clients, by what the point before took, and begins"
    f" no timestamp after {TIMESTAMPS_S:g} s by the clock; what would take longer is skipped with an estimate"
)
_FIGURE = Figure(
    name="26",
    paper="AP-Tree (VLDB J.), Fig. 26",
    title="Time and communication of protocols over the number of subscriptions",
    x_label="subscriptions",
    points=[Point(None, share=10.0**power) for power in range(-5, 1)],
    series=_SERIES,
    panels=_PANELS,
    measure=run,
    is_x_log=True,
    subscriptions=1_000_000,
    messages=10_000,
    history=1_000_000,
    checked=_CHECKED,
    budget=_BUDGET,
)
PROTOCOL_FIGURES = [
    _FIGURE,
    replace(
        _FIGURE,
        name="27",
        paper="AP-Tree (VLDB J.), Fig. 27",
        title="Time and communication of protocols over the arrivals at a timestamp",
        x_label="arrivals per timestamp",
        points=[Point(None, options={"arrivals": float(times)}) for times in range(1, 6)],
        is_x_log=False,
        subscriptions=10_000,
    ),
]
