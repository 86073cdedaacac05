"""The runs of `nearcast bench figures`: the papers' experiments at the papers' sizes, on generated data and on venues.

Sizes are scales of the figures: of the boolean ones 10 is a million subscriptions, of STAMP's too. Of Skype's and of
moving ones 50 is a million, with as many messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Folder of the results → the option that names the data.
DATA = {"generated": (), "venues": ("--source", "poi_us_venues")}
#: Bench, figure, what the paper calls it, and the scale that makes the paper's largest size.
_FIGURES = (
    ("boolean", "baselines", "Rt-tree Fig. 8 and 9", 10),
    ("boolean", "rt-scaling", "Rt-tree Fig. 10", 50),
    ("boolean", "keywords", "AP-Tree Fig. 13", 10),
    ("boolean", "range-size", "AP-Tree Fig. 14", 10),
    ("boolean", "subscriptions", "AP-Tree Fig. 15", 25),
    ("similar", "filters-delta", "STAMP Fig. 9 and 10", 10),
    ("similar", "filters-tau", "STAMP Fig. 9 and 10", 10),
    ("similar", "delta", "STAMP Fig. 11", 10),
    ("similar", "tau", "STAMP Fig. 11", 10),
    ("similar", "message-words", "STAMP Fig. 11", 10),
    ("similar", "subscription-words", "STAMP Fig. 11", 10),
    ("similar", "updates", "STAMP Fig. 12", 20),
    ("similar", "scaling", "STAMP Fig. 13 a to c", 100),
    ("topk", "dissemination", "Skype Fig. 13", 50),
    ("topk", "re-evaluation", "Skype Fig. 14", 50),
    ("topk", "keywords", "Skype Fig. 15", 50),
    ("topk", "k", "Skype Fig. 16", 50),
    ("topk", "subscriptions", "Skype Fig. 17", 50),
    ("topk", "window", "Skype Fig. 18", 50),
)
#: The join of a million subscriptions with a million messages alone takes minutes, for every index.
_LIMIT_TIMES = {"topk": 5}
#: A warm-up as long as the window, usual at small sizes, would take an hour for some indexes.
_TOPK_WARM_UP = 5_000
#: Figures that have their data sets on their axis, or words and maps of their own: one run each.
_OF_OWN_DATA = (
    ("boolean", "data-sets", "AP-Tree Fig. 12", 10),
    *(("moving", f"{number}", f"AP-Tree Fig. {number}", 50) for number in range(19, 26)),
    *(("moving", f"{number}", f"AP-Tree Fig. {number}", 1) for number in (26, 27)),
)
#: These have limits of their own.
_WITHOUT_LIMIT = ("moving",)


@dataclass(frozen=True)
class PaperRun:
    """One experiment at a size, on one kind of data; `arguments` are those of `nearcast bench` without the folder."""

    bench: str
    figure: str
    paper: str
    data: str
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in lists, and the path of its files below the folder of all results, without an ending."""
        return f"{self.data}/{self.bench}-{self.figure}"


def paper_runs(times: float = 1.0, limit_s: float = 120.0) -> list[PaperRun]:
    """Return all runs in the order of the papers; `times` multiplies the papers' sizes."""
    runs = [_run(*figure, data="generated", times=times, limit_s=limit_s) for figure in _OF_OWN_DATA]
    runs += [_run(*figure, data=data, times=times, limit_s=limit_s) for figure in _FIGURES for data in DATA]
    return runs


def _run(bench: str, figure: str, paper: str, scale: float, *, data: str, times: float, limit_s: float) -> PaperRun:
    sizes = ["--scale", f"{scale * times:g}"]
    if bench not in _WITHOUT_LIMIT:
        sizes += ["--limit-s", f"{limit_s * _LIMIT_TIMES.get(bench, 1):g}"]
    if bench == "topk":
        sizes += ["--warm-up", str(max(1, round(_TOPK_WARM_UP * times)))]
    return PaperRun(bench, figure, paper, data, (bench, "--figure", figure, *sizes, *DATA[data]))


class FinishedRuns:
    """The record of finished runs in a folder: what was run, by which version, and how long it took."""

    def __init__(self, folder: Path):
        self._path = folder / "figures.json"
        self._known: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            self._known = json.loads(self._path.read_text())

    def seconds(self, run: PaperRun, version: str) -> float | None:
        """Return how long a run took, None where it was not finished so, by this version."""
        found = self._known.get(run.name)
        is_same = found is not None and (found["arguments"], found["nearcast"]) == (list(run.arguments), version)
        return found["seconds"] if found is not None and is_same else None

    def note(self, run: PaperRun, version: str, seconds: float) -> None:
        """Record a run that has finished."""
        from nearcast._saved import replace_file

        self._known[run.name] = {
            "paper": run.paper,
            "arguments": list(run.arguments),
            "nearcast": version,
            "seconds": round(seconds, 1),
        }
        text = json.dumps(self._known, indent=2) + "\n"
        replace_file(self._path, lambda temporary: temporary.write_text(text))
