"""The bounds of the Skype paper as numbers: what a message must bring to concern a subscription, and what it may bring.

The paper's α is 1 - w, w being `text_weight`; kScore is θ, `threshold`. Dividing score ≥ θ by w (Equation 2):

    text ≥ λT = kScore* - α* · near      with kScore* = θ / w and α* = (1 - w) / w

Where w is all but 0 the division is of no use. There words may add w at most, so near ≥ θ - w is needed, which is
the same inequality with kScore* = θ - w, α* = 1 and no text at all: the *place alone* form. It holds for w = 0, too.

Every key is lower by `similarity.MARGIN` of the score, so that rounding never drops an answer.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inlined
from nearcast.similarity import MARGIN

#: Below this text weight a subscription is in the place-alone form.
LEAST_TEXT_WEIGHT = 1e-6
#: Squared lengths between which a unit vector can be trusted.
LEAST_LENGTH, MOST_LENGTH = 1e-150, 1e150


@inlined
def is_place_alone(text_weight):
    """Tell whether words may add so little that only the place is bounded."""
    return text_weight < LEAST_TEXT_WEIGHT


@inlined
def key_of(text_weight, threshold):
    """Return kScore*, less the margin."""
    if is_place_alone(text_weight):
        return threshold - text_weight - MARGIN
    return (threshold - MARGIN) / text_weight


@inlined
def alpha_of(text_weight):
    """Return α*."""
    if is_place_alone(text_weight):
        return 1.0
    return (1.0 - text_weight) / text_weight


@inlined
def has_length(squared):
    """Tell whether a vector of this squared length can be divided by it without losing digits."""
    return squared > LEAST_LENGTH and squared < MOST_LENGTH


@inlined
def member_key(scored, row):
    """Return kScore* of a scored row; minus infinity, no bound at all, where its words have no length to divide by."""
    own = scored.own[row]
    if own > 0.0 and not has_length(own) and not is_place_alone(scored.text_weight[row]):
        return -np.inf
    return key_of(scored.text_weight[row], scored.threshold[row])


@inlined
def text_threshold(key, alpha, near):
    """Return λT, the text similarity that is needed by who is at most this near (Equation 2)."""
    return key - alpha * near


@inlined
def unseen_text(own_sum, own_most, own_norm, said_sum, said_most, said_norm):
    """Return the most that words not yet looked at can add, from what is left of both unit vectors.

    The two bounds of Equation 5, and Cauchy-Schwarz as a third: none of them is always the least.
    """
    return min(own_sum * said_most, said_sum * own_most, own_norm * said_norm)
