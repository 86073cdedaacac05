"""The cost model of buffers, and the promise that buffers hold, on random streams."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.topk.buffers.cost import best_length, cost_of, skyband_size, updates_until_short

pytestmark = pytest.mark.modes


def equation_12(n, k, prob):
    return 2 * (n - k + 1) * n / prob + (n - k + 1) * (n - k + 2) / prob


@given(st.integers(1, 50), st.integers(0, 200), st.floats(1e-6, 1.0))
def test_with_even_odds_the_walk_is_equation_12(k, more, prob):
    n = k + more
    assert updates_until_short(float(n), float(k), prob / 2, prob / 2) == pytest.approx(equation_12(n, k, prob))


def simulated(n, k, up, down, rng):
    at, steps = n, 0
    while at >= k:
        steps += 1
        drawn = rng.random()
        if drawn < up:
            at = min(at + 1, 2 * n)
        elif drawn < up + down:
            at -= 1
    return steps


@pytest.mark.parametrize(
    ("n", "k", "up", "down"),
    [(6, 4, 0.5, 0.5), (5, 5, 0.3, 0.3), (9, 5, 0.4, 0.5), (8, 5, 0.35, 0.3), (3, 1, 0.1, 0.2)],
)
def test_simulated_walks_take_as_long_as_expected(n, k, up, down):
    """The mean of many walks lies within five standard errors."""
    rng = random.Random(n * 100 + k)
    walks = [simulated(n, k, up, down, rng) for _ in range(4000)]
    mean = sum(walks) / len(walks)
    error = math.sqrt(sum((steps - mean) ** 2 for steps in walks) / len(walks) / len(walks))
    assert abs(mean - updates_until_short(float(n), float(k), up, down)) < 5 * error


@given(st.integers(1, 20), st.integers(0, 60), st.floats(0.05, 0.95))
def test_uneven_odds_solve_the_recurrence_of_the_walk(k, more, arriving):
    """From each place: one update, then the mean over where it leads; at the top no further up."""
    n, up, down = k + more, arriving, 1.0 - arriving
    way, top = n - k + 1, 2 * n - k + 1
    steps_down = 1.0 / down  # from the top to the place below
    expected = steps_down if way == top else 0.0
    for place in range(top - 1, 0, -1):
        steps_down = (1.0 + up * steps_down) / down
        if place <= way:
            expected += steps_down
    assert updates_until_short(float(n), float(k), up, down) == pytest.approx(expected, rel=1e-6)


def test_odds_too_good_for_a_float_take_forever():
    assert math.inf == updates_until_short(1e5, 10.0, 0.9, 0.1)
    assert 0.0 == updates_until_short(4.0, 5.0, 0.5, 0.5)


def test_the_skyband_of_k_messages_is_all_of_them():
    """The paper's k·ln(n/k) is 0 there."""
    assert 20 == skyband_size(20, 20)
    assert 7 == skyband_size(20, 7)


@pytest.mark.parametrize(("k", "n"), [(1, 50), (3, 60), (10, 200)])
def test_the_skyband_of_random_scores_is_as_large_as_expected(k, n):
    rng = random.Random(k)
    sizes = []
    for _ in range(300):
        scores = [rng.random() for _ in range(n)]  # by age, the oldest first
        sizes.append(sum(sum(later >= score for later in scores[i + 1 :]) < k for i, score in enumerate(scores)))
    # The logarithm stands for a sum of 1/i, which is a little less.
    assert skyband_size(k, n) == pytest.approx(sum(sizes) / len(sizes), rel=0.05 + 0.08 / k)


@given(st.integers(1, 30), st.floats(10, 1e6), st.sampled_from([0.5, 0.5, 0.45, 0.6]), st.integers(1, 400))
def test_the_best_length_costs_least_of_all(k, search, arriving, most):
    found = best_length(k, search, arriving, most)
    last = max(k, min(most, 64 * k))
    costs = {n: cost_of(float(n), float(k), search, arriving) for n in range(k, last + 1)}
    assert k <= found <= last
    assert costs[found] <= min(costs.values()) * (1 + 1e-9)


def kept(scored, theta, k):
    """Return the partial k-skyband of (score, age) from θ on, a higher age being newer."""
    members = [each for each in scored if each[0] >= theta]
    return [a for a in members if sum(b[0] >= a[0] and b[1] > a[1] for b in members) < k]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 15))
def test_theorem_5_and_6_the_top_k_is_in_a_buffer_that_is_long_enough_and_only_then(scores, k, window):
    """θ stays what it was at the last search; |A| < k exactly if |A'| < k, so that both need a search at once."""
    theta = None
    for now in range(len(scores)):
        alive = [(score, age) for age, score in enumerate(scores) if now - window < age <= now]
        ranked = sorted(alive, reverse=True)
        if theta is None or sum(score >= theta for score, _ in alive) < k:
            theta = ranked[min(k, len(ranked)) - 1][0]
        buffer = kept(alive, theta, k)
        everything = [each for each in alive if each[0] >= theta]
        assert (len(buffer) < k) == (len(everything) < k)
        if len(buffer) >= k:
            assert set(ranked[:k]) <= set(buffer)
