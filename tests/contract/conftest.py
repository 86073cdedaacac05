"""Every registered index under one parameter, with options that make a small one walk through all of its code.

An index is asked what it matches: `SPECS` take boolean subscriptions, `SCORED` similar ones, `MIXED` both at once,
`TOPK` top-k ones, `OF_ALL_KINDS` all three.
"""

import numba
import pytest

from contract.worlds import STAMPS_BETWEEN, VARIANTS
from nearcast.indexes import available, create
from nearcast.testing import IndexActor
from nearcast.testing.strategies import KINDS

pytest.register_assert_rewrite("contract.scored", "contract.topk")

_KNOWN = {info.name: info for info in available()}


def kinds_of(spec):
    """Return the kinds of an index that scripts can hold."""
    return tuple(kind for kind in KINDS if kind in _KNOWN[spec.partition(":")[0]].kinds)


def _exists(spec):
    """Tell whether the index of a variant is registered and has these options."""
    name, _, given = spec.partition(":")
    return name in _KNOWN and {pair.partition("=")[0] for pair in given.split(",")} <= set(_KNOWN[name].options)


def _has_no_smaller(spec):
    """Tell whether a variant walks through all of its code in a small case, and is not between two others."""
    has_smaller = {variant.partition(":")[0] for variant in VARIANTS} - {"trigger"}
    return spec not in has_smaller and spec not in STAMPS_BETWEEN


def is_ours(spec):
    """Tell whether messages of users go through an index, or it is there for comparison."""
    return spec.partition(":")[0] in ("scan", "trigger")


EVERY = [*_KNOWN, *filter(_exists, VARIANTS)]
if numba.config.BOUNDSCHECK:
    EVERY = list(filter(is_ours, EVERY))  # a bad index raises in plain Python too
elif numba.config.DISABLE_JIT:
    EVERY = list(filter(_has_no_smaller, EVERY))
SPECS = [spec for spec in EVERY if "within" in kinds_of(spec)]
SCORED = [spec for spec in EVERY if "similar" in kinds_of(spec)]
MIXED = [spec for spec in SPECS if spec in SCORED]
TOPK = [spec for spec in EVERY if "topk" in kinds_of(spec)]
OF_ALL_KINDS = [spec for spec in MIXED if spec in TOPK]
#: Each mix of kinds, and who matches it.
SPECS_BY_KINDS = {
    ("within",): SPECS,
    ("similar",): SCORED,
    ("within", "similar"): MIXED,
    ("topk",): TOPK,
    KINDS: OF_ALL_KINDS,
}


def for_cases(specs):
    """Return those that single cases go through: ours in all modes, the papers' compiled alone, in their small variant.

    Everything in `EVERY` goes through the random lives of `test_agrees_with_scan`.
    """
    is_slow = numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK
    return [spec for spec in specs if is_ours(spec) or (not is_slow and _has_no_smaller(spec))]


@pytest.fixture(params=for_cases(SPECS), scope="session")
def spec(request):
    """Name an index that matches boolean subscriptions."""
    return request.param


@pytest.fixture
def new_index(spec):
    """Return a maker of empty indexes that take values."""
    return lambda space, **options: IndexActor(create(spec, space), **options)


@pytest.fixture(params=for_cases(SCORED), scope="session")
def scored_spec(request):
    """Name an index that matches similar subscriptions."""
    return request.param


@pytest.fixture
def new_scored(scored_spec):
    """Return a maker of empty indexes that take similar subscriptions."""
    return lambda space, **options: IndexActor(create(scored_spec, space), **options)


@pytest.fixture
def scored_kinds(scored_spec):
    """Return what that index matches: similar subscriptions alone, or boolean ones as well."""
    return kinds_of(scored_spec)


@pytest.fixture(params=for_cases(MIXED))
def new_mixed(request):
    """Return a maker of empty indexes that take both kinds."""
    return lambda space, **options: IndexActor(create(request.param, space), **options)


@pytest.fixture(params=for_cases(TOPK), scope="session")
def topk_spec(request):
    """Name an index that matches top-k subscriptions."""
    return request.param


@pytest.fixture
def new_topk(topk_spec):
    """Return a maker of empty indexes that take top-k subscriptions."""
    return lambda space, **options: IndexActor(create(topk_spec, space), **options)


@pytest.fixture(params=for_cases(OF_ALL_KINDS))
def new_of_all_kinds(request):
    """Return a maker of empty indexes that take all three kinds."""
    return lambda space, **options: IndexActor(create(request.param, space), **options)


@pytest.fixture(scope="session")
def interpreted():
    """Tell whether kernels run as plain Python, some hundred times slower."""
    return bool(numba.config.DISABLE_JIT)
