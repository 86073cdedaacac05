"""The request to explain one message to one subscription, and the explanation: a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nearcast.columns import Messages, Subscriptions
from nearcast.geo import Space

if TYPE_CHECKING:
    from nearcast._ids import Id
    from nearcast.text.weights import TermWeights


@dataclass(frozen=True)
class Step:
    """One check on the way: `name` is words, place, score, rank, window, expiry, life or index.

    `passed` is None where nothing was decided. `values` are the numbers of the step, by name.
    """

    name: str
    passed: bool | None
    detail: str
    values: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        mark = {True: "yes", False: "NO", None: "-"}[self.passed]
        return f"{self.name + ':':8}{mark:>4}  {self.detail}"


@dataclass(frozen=True)
class Explanation:
    """The steps that let a message through to a subscription, or dropped it."""

    subscription_id: Id
    message_id: Id
    matched: bool
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        verb = "gets" if self.matched else "does not get"
        head = f"subscription {self.subscription_id!r} {verb} message {self.message_id!r}"
        return "\n".join([head, *(f"  {step}" for step in self.steps)])

    @property
    def reason(self) -> str:
        """Return in one line all steps that dropped the message, or, where none did, those that let it through."""
        decisive = [step for step in self.steps if step.passed is False] or [s for s in self.steps if s.passed]
        return "; ".join(step.detail for step in decisive)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON-ready values."""
        return {
            "subscription_id": self.subscription_id,
            "message_id": self.message_id,
            "matched": self.matched,
            "steps": [{"name": s.name, "passed": s.passed, "detail": s.detail, **s.values} for s in self.steps],
        }


@dataclass(frozen=True)
class ExplainRequest:
    """A subscription and a message to explain, with what is needed to score and name them.

    `held` and `messages` have one row each; `word` returns the word of a term; `with_word` the
    message with one word more. `topk` is given for a subscription of kind `topk`.
    """

    held: Subscriptions
    messages: Messages
    space: Space
    word: Callable[[int], str]
    weights: TermWeights
    with_word: Callable[[str], Messages]
    topk: CurrentTopK | None = None


@dataclass(frozen=True)
class CurrentTopK:
    """The top-k of a subscription as it stands: scores and times, best first, of at most `k` messages.

    `why_late` says why the message cannot enter the window, where it comes too late.
    """

    k: int
    scores: list[float]
    times: list[int]
    is_by_time: bool
    why_late: str | None = None
