"""The one look of all pictures: panels up to three abreast, a colour and a mark for each series, a note below."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast._saved import replace_file
from nearcast.errors import NearcastError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearcast.bench.figures.figure import Figure, Panel, Row

#: Colours that colour-blind people can tell apart (Okabe and Ito); the marks tell the same in black and white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
_COMMON_COLOUR = "#777777"
_MARKS = ("o", "s", "^", "D", "v", "P", "x")
#: Where there are more series than colours, the next ones have the same colours in broken lines, or bars with stripes.
_LINES, _STRIPES = ("-", "--", ":"), ("", "///", "...")
#: A logarithmic axis is used where the largest value is more than so many times the smallest.
_LOG_FROM = 10
_PANEL_INCHES = (4.4, 3.6)
#: Words below an axis that have more letters are turned.
_LABEL_LETTERS = 40
_NOTE_INCHES, _LEGEND_LINE_INCHES = 0.3, 0.24
_LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#DDDDDD",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "figure.dpi": 120,
}


class NothingToDrawWith(NearcastError):
    """matplotlib is not installed."""


def must_be_able_to_draw() -> None:
    """Raise before hours of measuring if the pictures could not be drawn."""
    try:
        import matplotlib.figure  # noqa: F401  (asked for only to see whether it is there)
    except ImportError:
        raise NothingToDrawWith("figures are drawn with matplotlib: pip install 'nearcast[bench]'") from None


def write_figure(figure: Figure, rows: Sequence[Row], note: str, folder: Path, stem: str) -> list[Path]:
    """Write `stem`.png and `stem`.csv into a folder, each put in place when complete; return their paths."""
    picture, table = folder / f"{stem}.png", folder / f"{stem}.csv"
    replace_file(picture, lambda path: draw(figure, rows, note, path))
    replace_file(table, lambda path: _write_csv(rows, path))
    return [picture, table]


def draw(figure: Figure, rows: Sequence[Row], note: str, path: Path) -> None:
    """Draw the panels of a figure into a PNG file; `note` stands below them."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    across = 2 if len(figure.panels) == 4 else min(len(figure.panels), 3)
    down = -(-len(figure.panels) // across)
    lines = -(-len(figure.series) // (4 if across == 1 else 7))
    columns = -(-len(figure.series) // lines)
    below = _NOTE_INCHES + _LEGEND_LINE_INCHES * lines
    width, height = max(_PANEL_INCHES[0] * across, 6.5), _PANEL_INCHES[1] * down + below
    with mpl.rc_context(_LOOK):
        picture = Picture(figsize=(width, height))
        FigureCanvasAgg(picture)
        picture.set_layout_engine("constrained", rect=(0, below / height, 1, 1 - below / height), w_pad=0.1)
        picture.suptitle(f"{figure.title} ({figure.paper})")
        every = [picture.add_subplot(down, across, at + 1) for at in range(len(figure.panels))]
        for axes, panel in zip(every, figure.panels, strict=True):
            _draw_panel(axes, figure, panel, rows)
        at = (0.5, _NOTE_INCHES / height)
        picture.legend(*_legend(every), loc="lower center", bbox_to_anchor=at, borderaxespad=0, ncols=columns)
        picture.text(0.5, 0.07 / height, note, ha="center", fontsize=8, color="#555555")
        picture.savefig(path, format="png")


def _draw_panel(axes: Axes, figure: Figure, panel: Panel, rows: Sequence[Row]) -> None:
    xs = list(dict.fromkeys(row["x"] for row in rows))
    are_words = isinstance(xs[0], str)
    n = 1 if panel.is_common else len(figure.series)
    for at, series in enumerate(figure.series[:n]):
        ys = [_value(rows, x, series.label, panel.column) for x in xs]
        label = None if panel.is_common else series.label
        colour, mark = _COLOURS[at % len(_COLOURS)], _MARKS[at % len(_MARKS)]
        turn = at // len(_COLOURS) % len(_LINES)
        if panel.is_common:
            colour = _COMMON_COLOUR
        if are_words:
            width = 0.8 / n
            places = [i + width * (at - (n - 1) / 2) for i in range(len(xs))]
            axes.bar(places, ys, width, label=label, color=colour, hatch=_STRIPES[turn], edgecolor="white", linewidth=0)
        else:
            axes.plot(xs, ys, label=label, color=colour, marker=mark, linestyle=_LINES[turn])
    _label_axes(axes, figure, panel, xs, rows)


def _label_axes(axes: Axes, figure: Figure, panel: Panel, xs: list[Any], rows: Sequence[Row]) -> None:
    from matplotlib.ticker import FuncFormatter, LogFormatter

    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(panel.label)
    plain = FuncFormatter(lambda value, _: plain_number(value))
    if isinstance(xs[0], str):
        is_long = sum(map(len, xs)) > _LABEL_LETTERS
        turned: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
        axes.set_xticks(range(len(xs)), xs, **turned)
        axes.set_xlim(-0.5, len(xs) - 0.5)
        axes.grid(visible=False, axis="x")
    else:
        if figure.is_x_log:
            axes.set_xscale("log")
        axes.set_xticks(xs)
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(plain)
        if len(xs) > 5 and max(xs) >= 10_000:
            axes.tick_params("x", labelrotation=30)
    if panel.is_log and _spread_of(rows, panel.column) > _LOG_FROM:
        # A bar begins at 0, so that what is 0 can be left out of lines only.
        axes.set_yscale("log", nonpositive="clip" if isinstance(xs[0], str) else "mask")
        axes.yaxis.set_minor_formatter(LogFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(plain)


def plain_number(value: float) -> str:
    """Return a number without an exponent."""
    return f"{value:,.10f}".rstrip("0").rstrip(".") if 0 < abs(value) < 0.001 else f"{value:,.10g}"


def _value(rows: Sequence[Row], x: Any, label: str, column: str) -> float:
    """Return what was measured, NaN where it was not."""
    found = (row[column] for row in rows if row["x"] == x and row["series"] == label)
    value = next(found, None)
    return float("nan") if value is None else float(value)


def _spread_of(rows: Sequence[Row], column: str) -> float:
    """Return how many times the smallest value above 0 goes into the largest; 1 where there is none."""
    values = [row[column] for row in rows if row[column]]
    return max(values) / min(values) if values else 1.0


def _legend(every: Sequence[Axes]) -> tuple[list[Any], list[str]]:
    """Return the lines and names of the first panel that shows all series."""
    handles = [axes.get_legend_handles_labels() for axes in every]
    return max(handles, key=lambda pair: len(pair[1]))


def _write_csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
