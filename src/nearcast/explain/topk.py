"""Would this message enter the top-k of this subscription, at which rank, and what would it take?"""

from __future__ import annotations

from nearcast.explain.question import Question, Standing, Step
from nearcast.explain.score import (
    Score,
    distance_that_would_do,
    explained_distance,
    explained_sum,
    explained_text,
    more_words,
    score_of_message,
)


def explain_topk(question: Question, standing: Standing) -> tuple[Step, ...]:
    """Explain a subscription of kind `topk`: words, place, score, and where that stands among the k best."""
    scoring = question.held.scoring
    assert scoring is not None
    found = score_of_message(question, question.messages)
    shares = bool(found.common)
    words = explained_text(found, int(scoring.similarity[0]))
    steps = [
        Step("words", None if shares else False, words if shares else f"{words}; one is needed", {"text": found.text}),
        explained_distance(question, found),
    ]
    total = explained_sum(float(scoring.text_weight[0]), found, f"{found.score:.4g}")
    steps.append(Step("score", None, total, {"score": found.score}))
    if standing.why_late is not None:
        steps.append(Step("window", False, standing.why_late))
    if shares:
        steps.append(_explained_rank(question, standing, found))
    return tuple(steps)


def _explained_rank(question: Question, standing: Standing, found: Score) -> Step:
    """Say at which rank the message would enter now, or how much it lacks."""
    rank = 1 + _n_before(question, standing, found.score)
    held = len(standing.scores)
    values: dict[str, float] = {"rank": rank, "k": standing.k}
    if held == standing.k:
        values["needed"] = standing.scores[-1]
    if rank <= standing.k:
        among = f"the best {standing.k}" if held == standing.k else f"{held} of {standing.k} so far"
        leaves = f"; rank {standing.k} leaves, with {standing.scores[-1]:.4g}" if held == standing.k else ""
        return Step("rank", True, f"enters at rank {rank} among {among}{leaves}", values)
    needed = standing.scores[-1]
    shown, wanted = f"{found.score:.4g}", f"{needed:.4g}"
    if shown == wanted:
        shown, wanted = repr(found.score), repr(needed)
    detail = f"{shown} is beyond the best {standing.k}, of which the last has {wanted}"
    return Step("rank", False, detail + _what_would_do(question, found, needed), values)


def _n_before(question: Question, standing: Standing, score: float) -> int:
    """Return how many of the held rank before the message: of equal scores those that are newer."""
    time = int(question.messages.time[0])
    ahead = [held for held in standing.scores if held > score]
    if not standing.is_by_time:
        return len(ahead)
    equal = [at for held, at in zip(standing.scores, standing.times, strict=True) if held == score and at > time]
    return len(ahead) + len(equal)


def _what_would_do(question: Question, found: Score, needed: float) -> str:
    """Return each one change of the message that would let it in, as the newest of its score."""
    scoring = question.held.scoring
    assert scoring is not None
    ways = []
    weight = float(scoring.text_weight[0])
    distance = distance_that_would_do(question, found, weight, needed) if weight < 1 else None
    if distance is not None:
        ways.append(f"within {distance}" if distance else "on the spot")
    words = [word for word in found.missing if score_of_message(question, question.with_word(word)).score >= needed]
    if words:
        ways.append(more_words(words))
    return f"; would enter if {', or '.join(ways)}" if ways else ""
