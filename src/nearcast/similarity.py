"""How well do words and place fit together? The score of a subscription, and the bounds that let an index skip it.

    near  = max(0, 1 - distance / max_distance)
    score = text_weight · text + (1 - text_weight) · near

`text` is one of five functions of the words that a subscription s and a message m have in common, both sets of words:

    tsim     weight(s ∩ m) / weight(s)
    overlap  |s ∩ m| / |s|
    jaccard  weight(s ∩ m) / weight(s ∪ m)
    dice     2·|s ∩ m| / (|s| + |m|)
    cosine   |s ∩ m| / √(|s|·|m|)

Every kernel takes amounts as the function counts them: weights for tsim and jaccard, numbers of words for the
others. Top-k subscriptions have a sixth function, the cosine of tf-idf vectors, with tf = how often the message says
the word and 1 for each word of the subscription:

    tfidf    Σ weight(t) · tf(t) · weight(t) over s ∩ m, / (‖s‖ · ‖m‖)

Scores are decided in float64 by the functions here and nowhere else, with common words summed in the order of
the subscription's words sorted as strings: no two indexes disagree in the last bit. A bound may drop a subscription
only where it misses by more than `MARGIN`, far above what rounding can do.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import inlined

#: Values of the column `similarity`, and their names.
TSIM, OVERLAP, JACCARD, DICE, COSINE = 0, 1, 2, 3, 4
SIMILARITY_NAMES = ("tsim", "overlap", "jaccard", "dice", "cosine")
#: The text function of top-k subscriptions, which have no choice.
TFIDF = 5

#: Bounds prune only what misses by more than this.
MARGIN = 1e-9


@inlined
def counts_weights(function):
    """Tell whether a function adds up weights; the others count words."""
    return function == TSIM or function == JACCARD


@inlined
def reads_whole_message(function):
    """Tell whether a function depends on the words of the message that the subscription does not have."""
    return function >= JACCARD


@inlined
def text_of(function, common, own, other):
    """Return the text score of `common` amounts in a subscription of `own` and a message of `other` in all.

    Nothing in common, or words that weigh nothing, give 0.
    """
    if common <= 0.0 or own <= 0.0:
        return 0.0
    if function == JACCARD:
        return common / (own + other - common)
    if function == DICE:
        return 2.0 * common / (own + other)
    if function == COSINE:
        # One root of the product: equal sets give exactly 1, which the product of two roots does not.
        return common / math.sqrt(own * other)
    return common / own


@inlined
def tfidf_of(common, own, other):
    """Return the cosine of vectors with this product and these squared lengths, at most 1; 0 where one has no length.

    One root of the product: equal vectors give exactly 1.
    """
    product = own * other
    if common <= 0.0 or product <= 0.0:
        return 0.0
    cosine = common / math.sqrt(product)
    return cosine if cosine < 1.0 else 1.0


@inlined
def most_text(function, share):
    """Return the best text score of any message that has at most this share of the subscription's words.

    With c in common of s, and a message m that holds at least those c: jaccard = c / (s + m - c) ≤ c / s,
    dice = 2c / (s + m) ≤ 2c / (s + c), cosine = c / √(s·m) ≤ √(c / s). All three grow with c, and all are reached by
    the message that is just the common words: no bound that knows only the share is tighter.
    """
    if function == DICE:
        return 2.0 * share / (1.0 + share)
    if function == COSINE:
        return math.sqrt(share)
    return share


@inlined
def near_of(distance, max_distance):
    """Return how near a distance is: 1 on the spot, 0 from `max_distance` on."""
    near = 1.0 - distance / max_distance
    return near if near > 0.0 else 0.0


@inlined
def score_of(text_weight, text, near):
    """Return the score."""
    return text_weight * text + (1.0 - text_weight) * near


@inlined
def near_needed(text_weight, threshold, text):
    """Return how near a message must be to reach the threshold with at most this text score.

    0 where any distance will do, since `near` is never below; above 1 where none will. This is LSB of the STAMP
    paper, less the margin, and defined for text_weight 1.
    """
    missing = threshold - text_weight * text - MARGIN
    if missing <= 0.0:
        return 0.0
    rest = 1.0 - text_weight
    if rest <= 0.0:
        return np.inf
    return float(missing) / float(rest)


@inlined
def text_needed(text_weight, threshold, near):
    """Return the text score that reaches the threshold at this nearness, less the margin; inf where none does.

    0 where no word is needed. The paper's textual threshold (Eq. 1 and 9), defined for text_weight 0.
    """
    missing = threshold - (1.0 - text_weight) * near - MARGIN
    if missing <= 0.0:
        return 0.0
    if text_weight <= 0.0:
        return np.inf
    return float(missing) / float(text_weight)  # inf, without a warning, for the smallest of weights


@inlined
def share_needed(function, text):
    """Return the least share of a subscription's words that lets a message reach this text score.

    The inverse of `most_text`: from dice d, share ≥ d / (2 - d); from cosine c, share ≥ c².
    """
    if text > 1.0:
        return np.inf
    if function == DICE:
        return text / (2.0 - text)
    if function == COSINE:
        return text * text
    return text
