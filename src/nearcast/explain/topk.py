"""Explains a top-k subscription: the rank at which a message would enter, or the score it would take."""

from __future__ import annotations

from nearcast.explain.explanation import CurrentTopK, ExplainRequest, Step
from nearcast.explain.score import (
    Score,
    distance_that_would_do,
    explained_distance,
    explained_sum,
    explained_text,
    more_words,
    score_of_message,
)


def explain_topk(request: ExplainRequest, current: CurrentTopK) -> tuple[Step, ...]:
    """Explain a subscription of kind `topk`: words, place, score, and where that stands among the k best."""
    scoring = request.held.scoring
    assert scoring is not None
    found = score_of_message(request, request.messages)
    shares = bool(found.common)
    words = explained_text(found, int(scoring.similarity[0]))
    steps = [
        Step("words", None if shares else False, words if shares else f"{words}; one is needed", {"text": found.text}),
        explained_distance(request, found),
    ]
    total = explained_sum(float(scoring.text_weight[0]), found, f"{found.score:.4g}")
    steps.append(Step("score", None, total, {"score": found.score}))
    if current.why_late is not None:
        steps.append(Step("window", False, current.why_late))
    if shares:
        steps.append(_explained_rank(request, current, found))
    return tuple(steps)


def _explained_rank(request: ExplainRequest, current: CurrentTopK, found: Score) -> Step:
    """Say at which rank the message would enter now, or how much it lacks."""
    rank = 1 + _n_before(request, current, found.score)
    held = len(current.scores)
    values: dict[str, float] = {"rank": rank, "k": current.k}
    if held == current.k:
        values["needed"] = current.scores[-1]
    if rank <= current.k:
        among = f"the best {current.k}" if held == current.k else f"{held} of {current.k} so far"
        leaves = f"; rank {current.k} leaves, with {current.scores[-1]:.4g}" if held == current.k else ""
        return Step("rank", True, f"enters at rank {rank} among {among}{leaves}", values)
    needed = current.scores[-1]
    shown, wanted = f"{found.score:.4g}", f"{needed:.4g}"
    if shown == wanted:
        shown, wanted = repr(found.score), repr(needed)
    detail = f"{shown} is beyond the best {current.k}, of which the last has {wanted}"
    return Step("rank", False, detail + _what_would_do(request, found, needed), values)


def _n_before(request: ExplainRequest, current: CurrentTopK, score: float) -> int:
    """Return how many of the held rank before the message: of equal scores those that are newer."""
    time = int(request.messages.time[0])
    ahead = [held for held in current.scores if held > score]
    if not current.is_by_time:
        return len(ahead)
    equal = [at for held, at in zip(current.scores, current.times, strict=True) if held == score and at > time]
    return len(ahead) + len(equal)


def _what_would_do(request: ExplainRequest, found: Score, needed: float) -> str:
    """Return each one change of the message that would let it in, as the newest of its score."""
    scoring = request.held.scoring
    assert scoring is not None
    ways = []
    weight = float(scoring.text_weight[0])
    distance = distance_that_would_do(request, found, weight, needed) if weight < 1 else None
    if distance is not None:
        ways.append(f"within {distance}" if distance else "on the spot")
    words = [word for word in found.missing if score_of_message(request, request.with_word(word)).score >= needed]
    if words:
        ways.append(more_words(words))
    return f"; would enter if {', or '.join(ways)}" if ways else ""
