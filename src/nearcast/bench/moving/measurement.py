"""The measuring function of the figures of moving subscriptions.

Every index lives through the same timestamps. One that takes long is measured over fewer of them, of which the row
tells; one that would take too long to build or to fill is skipped, with the reason in the row. No times are told before
what an index delivers was found equal to what the others do, and to `scan` for a sample of subscriptions.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nearcast.bench.limits import Expectation, free_memory, note_trial
from nearcast.bench.moving.life import LifeLimits, LifeTimes, LifeWorld, live_through, try_out
from nearcast.bench.moving.life_answers import LifeDigest
from nearcast.bench.timing import Say, spread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.bench.data.places import Floats
    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.bench.figures.figure import Figure, Point, Row
    from nearcast.bench.moving.settings import MovingSetting, SettingData

#: How long building an index may take at a point, filling it with messages, and the CPU time of its timestamps.
BUILD_S, FILL_S, MEASURE_S = 60.0, 60.0, 5.0
#: The definition: every subscription is tried on every message. And how many tries it has, of how many subscriptions.
PLAIN = "scan:live=scan"
_TRIES, _SAMPLE = 20_000_000, (20, 200)

#: What a report takes together: Cslu, Circ and the search of the paper.
MSP_PHASES = ("relocate", "rebuild", "difference")
_MEASURED = (
    "timestamps",
    "imm_us",
    "mi_us",
    "slu_us",
    "rebuild_us",
    "difference_us",
    "msp_us",
    "msp_s_per_timestamp",
    "s_per_timestamp",
    "bytes_per_subscription",
    "deliveries_per_timestamp",
)

CHECKED = (
    "at each point all indexes deliver the same in every timestamp that several lived through, and what scan delivers"
    " to a sample of subscriptions; the column timestamps of the CSV tells how many each had"
)
BUDGET = (
    f"at each point an index has {BUILD_S:g} s to be built, by a trial with a tenth of the subscriptions, {FILL_S:g} s"
    f" to take the first messages, and begins no timestamp after {MEASURE_S:g} s of CPU time; what takes longer is"
    " skipped with an estimate, or measured over fewer timestamps"
)


class MovingData(NamedTuple):
    """What figures are measured on: the setting that points differ from, and what makes its workloads."""

    setting: MovingSetting
    source: SettingData

    @property
    def about(self) -> dict[str, object]:
        """What there is to say of the last workload that was made."""
        return self.source.about

    def words(self, n: int, n_messages: int) -> EncodedWorkload:
        """Return so many subscriptions and messages in columns; the words are those of both."""
        return self.source.words(replace(self.setting, subscriptions=n), n_messages)

    def places(self, n: int, timestamps: int) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return where so many objects are that move in every timestamp: times (T,), x (T, n), y (T, n)."""
        return self.source.places(replace(self.setting, subscriptions=n, timestamps=timestamps, mobility=1.0))


def over_settings(figure: Figure, data: MovingData, say: Say) -> Iterator[Row]:
    """Measure every series at every point, whose `options` are fields of the setting and whose share scales it."""
    labels: list[str] = []
    for at, point in enumerate(figure.points):
        where = f"point {at + 1} of {len(figure.points)}"
        say(f"{where}: preparing the data")
        setting = setting_at(figure, data.setting, point)
        world = LifeWorld.of(data.source.workload(setting))
        say(f"{where}: asking scan")
        answers = ComparedLives(world, setting.timestamps)
        labels.append(setting.label)
        for series in figure.series:
            say(f"{where}: {series.label}")
            if not at:
                try_out(world, series.spec)
            times = measured(world, series.spec, setting.timestamps, answers)
            x = setting.label if point.x is None else point.x
            yield {"x": x, "series": series.label, "index": series.spec} | _row(times, setting)
            gc.collect()
    data.about["source"] = ", ".join(dict.fromkeys(labels))


def setting_at(figure: Figure, setting: MovingSetting, point: Point) -> MovingSetting:
    """Return the setting of a point."""
    subscriptions, messages = (max(1, round(n * point.share)) for n in (figure.subscriptions, figure.messages))
    return replace(setting, subscriptions=subscriptions, messages=messages, **point.options)


class ComparedLives:
    """What engines have delivered of one workload: `scan` to a sample of subscriptions, others everything."""

    def __init__(self, world: LifeWorld, timestamps: int):
        fewest, most = _SAMPLE
        n = min(max(_TRIES // world.workload.messages.num_rows, fewest), most, len(world.subscriptions))
        rows = spread(len(world.subscriptions), n)
        few = world.of_rows(rows)
        self._sample = few.subscriptions.ids
        self._plain, self._known = LifeDigest(self._sample), list[tuple[str, LifeDigest]]()
        live_through(few, PLAIN, timestamps, LifeLimits(float("inf"), float("inf")), self._plain)

    def new_digest(self) -> LifeDigest:
        """Return what is to take in the deliveries of an engine."""
        return LifeDigest(self._sample)

    def check(self, spec: str, digest: LifeDigest) -> None:
        """Raise `AnswersDiffer` unless an engine delivered what the others did."""
        digest.must_have(spec, self._plain)
        for other, known in self._known:
            digest.must_equal(spec, known, other)
        if not self._known or len(digest.parts) > max(len(known.parts) for _, known in self._known):
            self._known.append((spec, digest))


def measured(world: LifeWorld, spec: str, timestamps: int, answers: ComparedLives) -> LifeTimes:
    """Return the times of an index, whose deliveries are checked, or why it has none."""
    expected = Expectation(BUILD_S, f"the limit of a figure is {BUILD_S:g} s")
    note_trial(expected, world.encoded(), spec)
    reason = expected.why_not(len(world.subscriptions), free_memory())
    if reason is not None:
        return LifeTimes(skipped=reason)
    digest = answers.new_digest()
    times = live_through(world, spec, timestamps, LifeLimits(FILL_S, MEASURE_S), digest)
    answers.check(spec, digest)
    return times


def _row(times: LifeTimes, setting: MovingSetting) -> Row:
    head = {"subscriptions": setting.subscriptions, "messages": setting.messages}
    if times.skipped is not None:
        return head | dict.fromkeys(_MEASURED) | {"skipped": times.skipped}
    n, moving = times.timestamps, sum(times.seconds[phase] for phase in MSP_PHASES)
    found = (
        n,
        times.per_message_us("match", "append"),
        times.per_message_us("append"),
        times.per_move_us("relocate"),
        times.per_move_us("rebuild"),
        times.per_move_us("difference"),
        times.per_move_us(*MSP_PHASES),
        round(moving / n, 6),
        round(sum(times.seconds.values()) / n, 6),
        round(times.n_bytes / setting.subscriptions, 1),
        round(times.n_deliveries / n, 1),
    )
    return head | dict(zip(_MEASURED, found, strict=True)) | {"skipped": None}
