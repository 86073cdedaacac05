"""Explains whether a subscription gets a message: one step for each test, with what was missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.columns import WITHIN
from nearcast.explain.boolean import explain_boolean
from nearcast.explain.explanation import CurrentTopK, ExplainRequest, Explanation, Step
from nearcast.explain.score import explain_score

if TYPE_CHECKING:
    from nearcast._ids import Id

__all__ = ["CurrentTopK", "ExplainRequest", "Explanation", "Step", "explain"]


def explain(request: ExplainRequest, index_lines: list[str], ids: tuple[Id, Id]) -> Explanation:
    """Return the steps that let the message through to the subscription or drop it; `ids` are those of both."""
    if request.topk is not None:
        from nearcast.explain.topk import explain_topk

        asked = explain_topk(request, request.topk)
    else:
        asked = explain_boolean(request) if request.held.kind[0] == WITHIN else explain_score(request)
    steps = (*asked, *(Step("index", None, line) for line in index_lines))
    return Explanation(*ids, all(step.passed is not False for step in steps), steps)
