"""Bounds on figures, and figures beside them as reports have them."""

import pytest

from nearcast.bench.aims import Aim, AimedFigure


@pytest.mark.parametrize(
    ("aim", "text", "kept", "broken"),
    [
        (Aim.at_least(200_000), ">= 200,000", 200_000, 199_999),
        (Aim.at_most(1.3), "<= 1.3", 1.3, 1.301),
        (Aim.at_most(60, "on two cores"), "<= 60 on two cores", 0, 61),
    ],
)
def test_a_bound_is_kept_or_not(aim, text, kept, broken):
    """The bound itself keeps it; of what was not measured nothing is said."""
    assert (text, True, False, None) == (str(aim), aim.is_met(kept), aim.is_met(broken), aim.is_met(None))


def test_a_figure_has_the_fields_that_are_known_of_it():
    """The value that is shown is the one that is judged."""
    plain = {"figure": "events", "value": 0.9, "unit": "of those alone"}
    assert plain == AimedFigure("events", 0.9, "of those alone").to_json()
    found = AimedFigure("events", 0.89996, "of those alone", Aim.at_least(0.9), row="streams").to_json()
    assert {"row": "streams", **plain, "aim": 0.9, "aim_is": "at least", "is_met": True} == found
    found = AimedFigure("ten", None, "ms", Aim.at_most(250), stated_for="a warm stream", is_of_size=False).to_json()
    assert ["figure", "value", "unit", "aim", "aim_is", "stated_for", "is_of_size", "is_met"] == list(found)
    assert (None, None, "at most") == (found["value"], found["is_met"], found["aim_is"])
