"""The query language: text and JSON to a tree, the tree to alternatives, a column to codes."""

import copy
import json
import pickle
from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nearcast.query
from nearcast.errors import InvalidQuery
from nearcast.query import (
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_QUERY_CHARS,
    MAX_QUERY_TERMS,
    NOT,
    NOT_PHRASE,
    PHRASE,
    And,
    Clause,
    CompiledQueries,
    Everything,
    Not,
    Or,
    Phrase,
    Query,
    Word,
    compile_queries,
    compile_trees,
    parse,
)
from nearcast.query import plain as plain_rows
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

A, B, C, D = (Word(letter) for letter in "abcd")
AB = Phrase(("a", "b"))

words = st.sampled_from(["a", "b", "c", "and", "or", "not", "#tag", "@me", "don't", "東京", "strasse", "🍜", "x_1"])
leaves = words.map(Word) | st.lists(words, min_size=2, max_size=3).map(lambda each: Phrase(tuple(each)))


def _joined(parts: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return several.map(And) | several.map(Or) | parts.map(Not)


trees = st.just(Everything()) | st.recursive(leaves, _joined, max_leaves=12)
small_leaves = st.sampled_from([A, B, C, AB, Phrase(("b", "a")), Phrase(("a", "a"))])
small_trees = st.recursive(small_leaves, _joined, max_leaves=8)
documents = st.lists(st.sampled_from("abc"), max_size=5)


def scribbles(pieces: str, *blanks: str) -> st.SearchStrategy[str]:
    """Return texts of these pieces and blanks, with and without spaces between them."""
    several = st.lists(st.sampled_from([*pieces.split(), *blanks]), max_size=12)
    return several.map("".join) | several.map(" ".join)


query_like = scribbles("a B c AND OR NOT ( ) \" ” - ' # @ _ wi-fi É 🍜 and .", " ", "\n")


# ---------------------------------------------------------------------------------------------------- text to tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", Everything()),
        (" \t\n", Everything()),
        ("a", A),
        ("a b", And((A, B))),
        ("a AND b", And((A, B))),
        ("a AND b c", And((A, B, C))),
        ("a OR b", Or((A, B))),
        ("NOT a", Not(A)),
        ("NOT NOT a", Not(Not(A))),
        ("a OR b c", Or((A, And((B, C))))),
        ("a b OR c d", Or((And((A, B)), And((C, D))))),
        ("NOT a b", And((Not(A), B))),
        ("NOT a OR b", Or((Not(A), B))),
        ("(a OR b) c", And((Or((A, B)), C))),
        ("NOT (a OR b)", Not(Or((A, B)))),
        ("NOT(a)b", And((Not(A), B))),
        ("((a))", A),
        ("(a b) c", And((And((A, B)), C))),
        ('"a b"', AB),
        ("“a b”", AB),
        ('"a" b', And((A, B))),
        ('c"a b"d', And((C, AB, D))),
        ('NOT "a b"', Not(AB)),
        ("a and b", And((A, Word("and"), B))),
        ("And Or Not", And((Word("and"), Word("or"), Word("not")))),
        ('"AND" a', And((Word("and"), A))),
        ("ANDY ORB NOTE", And((Word("andy"), Word("orb"), Word("note")))),
        ("#Tag @Name", And((Word("#tag"), Word("@name")))),
        ("wi-fi", Phrase(("wi", "fi"))),
        ("AT&T", Phrase(("at", "t"))),
        ('"wi-fi."', Phrase(("wi", "fi"))),
        ("Ramen,", Word("ramen")),
        ("don’t", Word("don't")),
        ("CAFE\u0301", Word("caf\u00e9")),
        ("STRASSE", Word("strasse")),
        ("straße", Word("strasse")),
    ],
)
def test_text_becomes_tree(text: str, tree: Query) -> None:
    """NOT binds tighter than AND, AND tighter than OR; operators are upper case; words are normalised like text."""
    assert tree == parse(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('a "b', 1, 3, 'unclosed quote: add a closing "'),
        ('"', 1, 1, "unclosed quote"),
        ("(a OR (b)", 1, 1, 'unclosed parenthesis: add a ")"'),
        ("a)", 1, 2, 'no "(" belongs to this ")"'),
        ("a ()", 1, 3, "empty parentheses"),
        ("AND a", 1, 1, "AND has nothing before it"),
        ("a OR", 1, 3, "OR has nothing after it"),
        ("a AND OR b", 1, 3, "AND has nothing after it"),
        ("a AND AND b", 1, 3, "AND has nothing after it"),
        ("a NOT", 1, 3, "NOT has nothing after it"),
        ("a NOT AND b", 1, 3, "NOT has nothing after it"),
        ("(a OR) b", 1, 4, "OR has nothing after it"),
        ("(OR a) b", 1, 2, "OR has nothing before it"),
        ("a (NOT) b", 1, 4, "NOT has nothing after it"),
        ('a ""', 1, 3, "no word between these quotes"),
        ('a "?!"', 1, 3, "no word between these quotes"),
        ("a ... b", 1, 3, "no letter, digit or emoji"),
        ("a | b", 1, 3, "or write OR"),
        ("salt & pepper", 1, 6, "or write AND"),
        ("ipad -used", 1, 6, "write NOT used"),
        ("a\nb (c\n  OR", 3, 3, "OR has nothing after it"),
        ("a\r\nb )", 2, 3, 'no "(" belongs'),
    ],
)
def test_errors_say_where_and_what_to_do(text: str, line: int, column: int, said: str) -> None:
    """A syntax error names line and column, points at the culprit and says how to mend it."""
    with pytest.raises(InvalidQuery) as caught:
        parse(text)
    error = caught.value
    assert (line, column) == (error.line, error.column)
    assert said in error.reason
    shown, caret = str(error).split("\n")[1:]
    assert text.splitlines()[line - 1] == shown[2:]
    assert " " * (column - 1) + "^" == caret[2:]


@pytest.mark.parametrize("text", ["(" * 10_000, "a(" * 5_000, "(" * 20_000, "NOT " * 2_400 + "a", ")" * 10_000])
def test_hostile_nesting_is_refused(text: str) -> None:
    """Any depth of parentheses or NOTs gives InvalidQuery, not RecursionError."""
    with pytest.raises(InvalidQuery):
        parse(text)


@pytest.mark.parametrize(
    "text", ["a OR " * 5_000 + "a", "a OR " * 1_000 + "a", "a " * MAX_QUERY_TERMS + "a", '"' + "a-" * 1_001 + '"']
)
def test_hostile_length_is_refused(text: str) -> None:
    """Too many characters or too many words, also inside phrases, give an error that says to split the query."""
    with pytest.raises(InvalidQuery, match="split it into several"):
        parse(text)


def test_queries_at_the_limits_parse() -> None:
    """The limits themselves are allowed: characters, words, depth."""
    many = " ".join(f"w{i:08}" for i in range(MAX_QUERY_TERMS))
    assert len(many) == MAX_QUERY_CHARS - 1
    assert MAX_QUERY_TERMS == len(parse(many).clauses()[0].words)
    assert A == parse("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH)
    assert A == parse("a" + " " * (MAX_QUERY_CHARS - 1))


def deepest() -> Query:
    """Return a tree as high as the limits allow: an OR and an AND in each parenthesis."""
    return parse("a OR b (" * MAX_DEPTH + "c" + ")" * MAX_DEPTH)


def test_the_deepest_query_can_be_used() -> None:
    """A query as deep as allowed can be written, compared, hashed, copied, pickled, shown and evaluated."""
    query = deepest()
    assert query == parse(str(query)) == parse(query.to_json())
    assert hash(query) == hash(copy.deepcopy(query))
    assert query == pickle.loads(pickle.dumps(query))
    assert query == parse(json.loads(json.dumps(query.to_json())))
    assert "Word(text='c')" in repr(query)
    assert query.holds(["b", "c"])
    assert (Clause(words=("a",)), Clause(words=("b", "c"))) == query.clauses()


def test_text_that_grows_beyond_the_limit_is_refused() -> None:
    """A query whose normalised form could not be parsed again is refused, since it would not round-trip."""
    with pytest.raises(InvalidQuery, match="normalised"):
        parse("ﬃ" * MAX_QUERY_CHARS)


@pytest.mark.parametrize("value", [None, 7, b"a", ["a"]])
def test_neither_text_nor_json_is_refused(value: object) -> None:
    """Anything but text, a mapping or a tree is an InvalidQuery that names the type."""
    with pytest.raises(InvalidQuery, match=type(value).__name__):
        parse(value)  # type: ignore[arg-type]


def test_a_tree_parses_to_itself() -> None:
    """A tree can be given wherever a query can."""
    assert parse(AB) is AB


# ---------------------------------------------------------------------------------------------------- round trips


@given(trees)
@settings(max_examples=50)
def test_trees_round_trip_through_text_and_json(tree: Query) -> None:
    """Text and JSON of any tree parse to an equal tree."""
    assert tree == parse(str(tree))
    assert tree == parse(json.loads(json.dumps(tree.to_json())))


@given(st.text(max_size=40) | query_like)
@example("©️ ™️")
@example("İ ŉ ΐ")
@example("1️⃣ #️⃣ 🇯🇵🇯")
@example("\ud800 a\x00b")
@settings(max_examples=150)
def test_any_text_parses_and_round_trips_or_is_refused(text: str) -> None:
    """Whatever is typed, the answer is a tree that round-trips or InvalidQuery, and nothing else."""
    try:
        tree = parse(text)
    except InvalidQuery:
        return
    assert tree == parse(str(tree))
    assert tree == parse(tree.to_json())


def _nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    keys = st.sampled_from(["and", "or", "not", "word", "phrase", "xor"])
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, min_size=1, max_size=2)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), _nested, max_leaves=8))
@settings(max_examples=80)
def test_any_json_parses_or_is_refused(value: object) -> None:
    """Whatever JSON is given, the answer is a tree or InvalidQuery, and nothing else."""
    try:
        tree = parse(value if isinstance(value, dict) else {"and": value})
    except InvalidQuery:
        return
    assert tree == parse(str(tree))


# ---------------------------------------------------------------------------------------------------- JSON


def test_json_form() -> None:
    """The JSON form is the one of the documentation, in both directions."""
    form = {"and": [{"word": "ipad"}, {"not": {"word": "used"}}, {"or": [{"phrase": ["hot", "dog"]}, {"word": "x"}]}]}
    assert form == parse('ipad NOT used ("hot dog" OR x)').to_json()
    assert parse('ipad NOT used ("hot dog" OR x)') == parse(form)
    assert {} == parse("").to_json()
    assert Everything() == parse({})


@pytest.mark.parametrize(
    ("form", "tree"),
    [
        ({"word": "Wi-Fi"}, Phrase(("wi", "fi"))),
        ({"word": "AND"}, Word("and")),
        ({"word": "-used"}, Word("used")),
        ({"phrase": ["Ramen"]}, Word("ramen")),
        ({"phrase": ["at&t", "store"]}, Phrase(("at", "t", "store"))),
        ({"and": [{"word": "a"}]}, A),
        ({"or": ({"word": "a"}, {"word": "b"})}, Or((A, B))),
    ],
)
def test_json_words_are_normalised(form: dict, tree: Query) -> None:
    """Words in JSON go the way of words in text; a list of one is its element."""
    assert tree == parse(form)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"xor": []}, "$.xor: unknown key 'xor', expected one of \"and\""),
        ({"and": []}, "$.and: expected a list of at least one query, got an empty list"),
        ({"and": {"word": "a"}}, "$.and: expected a list of at least one query, got an object"),
        ({"and": [{"word": "a"}, {"not": {"word": 3}}]}, "$.and[1].not.word: expected a string, got a number"),
        ({"or": [{"word": "a"}, "b"]}, "$.or[1]: expected an object with one key"),
        ({"or": [{"word": "a"}, {}]}, "$.or[1]: expected an object with one key"),
        ({"word": "a", "not": {"word": "b"}}, "$: expected an object with one key"),
        ({"phrase": ["a", None]}, "$.phrase[1]: expected a string, got null"),
        ({"phrase": "a b"}, "$.phrase: expected a list of at least one word, got a string"),
        ({"word": "..."}, "$.word: '...' has no letter, digit or emoji"),
    ],
)
def test_json_errors_name_the_path(form: dict, said: str) -> None:
    """An error in the JSON form names the path of the culprit."""
    with pytest.raises(InvalidQuery) as caught:
        parse(form)
    assert said in str(caught.value)


@pytest.mark.parametrize("wrap", [lambda inner: {"not": inner}, lambda inner: {"and": [inner]}])
def test_hostile_json_nesting_is_refused(wrap) -> None:
    """JSON nested without end gives InvalidQuery, not RecursionError."""
    form = {"word": "a"}
    for _ in range(50_000):
        form = wrap(form)
    with pytest.raises(InvalidQuery, match="nested deeper"):
        parse(form)
    while "word" not in form:  # taken apart here, because the interpreter would do it by recursion
        form = form["not"] if "not" in form else form["and"].pop()


@pytest.mark.parametrize("form", [{"or": [{"word": "a"}] * 1_001}, {"phrase": ["a"] * 1_001}, {"word": "a" * 10_001}])
def test_hostile_json_size_is_refused(form: dict) -> None:
    """The limits of text hold for JSON too."""
    with pytest.raises(InvalidQuery, match="split it into several"):
        parse(form)


# ---------------------------------------------------------------------------------------------------- nodes by hand


@pytest.mark.parametrize(
    "make",
    [
        lambda: And(()),
        lambda: Or((A,)),
        lambda: Phrase(("a",)),
        lambda: Not(Everything()),
        lambda: And((A, Everything())),
        lambda: Or((A, Everything())),
    ],
)
def test_impossible_nodes_are_refused(make) -> None:
    """A node that no query text gives cannot be made by hand either."""
    with pytest.raises(InvalidQuery):
        make()


# ---------------------------------------------------------------------------------------------------- meaning


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("", [], True),
        ("a", ["b", "a"], True),
        ("a", [], False),
        ("a b", ["b", "a"], True),
        ("a b", ["a"], False),
        ("a OR b", ["b"], True),
        ("NOT a", ["b"], True),
        ("NOT a", ["a"], False),
        ('"a b"', ["a", "b"], True),
        ('"a b"', ["c", "a", "a", "b"], True),
        ('"a b"', ["b", "a"], False),
        ('"a b"', ["a", "c", "b"], False),
        ('"a a"', ["a"], False),
        ('"a a"', ["a", "a"], True),
        ('NOT "a b"', ["b", "a"], True),
        ('NOT "a b"', ["a", "b"], False),
    ],
)
def test_holds(text: str, tokens: list[str], expected: bool) -> None:
    """A word is there or not; a phrase needs its words next to each other in order."""
    assert expected == parse(text).holds(tokens)


def clause_holds(clause: Clause, tokens: Sequence[str]) -> bool:
    """Say what a clause says, as plainly as possible."""
    found = {tuple(tokens[i:j]) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)}
    return (
        all(word in tokens for word in clause.words)
        and not any(word in tokens for word in clause.not_words)
        and all(phrase in found for phrase in clause.phrases)
        and not any(phrase in found for phrase in clause.not_phrases)
    )


@given(small_trees, st.lists(documents, max_size=8))
@settings(max_examples=80)
def test_clauses_mean_what_the_tree_means(tree: Query, messages: list[list[str]]) -> None:
    """A message satisfies a query exactly when it satisfies one of its clauses."""
    clauses = tree.clauses(limit=10_000)
    for tokens in messages:
        assert tree.holds(tokens) == any(clause_holds(clause, tokens) for clause in clauses)


@given(small_trees)
@settings(max_examples=60)
def test_clauses_are_tidy(tree: Query) -> None:
    """No clause repeats or contradicts itself or follows from another, and phrases bring their words."""
    clauses = tree.clauses(limit=10_000)
    for clause in clauses:
        for part in clause:
            assert len(set(part)) == len(part)
        assert not set(clause.words) & set(clause.not_words)
        assert not set(clause.phrases) & set(clause.not_phrases)
        assert {word for phrase in clause.phrases for word in phrase} <= set(clause.words)
    literals = [frozenset(enumerate_literals(clause)) for clause in clauses]
    assert not any(one < other for one in literals for other in literals)
    assert len(set(literals)) == len(literals)


def enumerate_literals(clause: Clause) -> Iterator[tuple[int, object]]:
    """Yield each word and phrase of a clause with its sign."""
    for kind, part in enumerate(clause):
        yield from ((kind, each) for each in part)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [Clause()]),
        ("b a b", [Clause(words=("b", "a"))]),
        ("a OR b", [Clause(words=("a",)), Clause(words=("b",))]),
        ("(a OR b) c", [Clause(words=("a", "c")), Clause(words=("b", "c"))]),
        ("a NOT a", []),
        ('"a b" NOT b', []),
        ("a OR a b", [Clause(words=("a",))]),
        ("a b OR a", [Clause(words=("a",))]),
        ('"a b" OR b', [Clause(words=("b",))]),
        ("NOT (a OR b)", [Clause(not_words=("a", "b"))]),
        ("NOT (a b)", [Clause(not_words=("a",)), Clause(not_words=("b",))]),
        ("NOT NOT a", [Clause(words=("a",))]),
        ('c NOT "a b"', [Clause(words=("c",), not_phrases=(("a", "b"),))]),
        ('c NOT "a b" NOT a', [Clause(words=("c",), not_words=("a",))]),
        ('"a b" a', [Clause(words=("a", "b"), phrases=(("a", "b"),))]),
        ("(a OR b) (a OR c) (a OR d) (a OR e)", [Clause(words=("a",)), Clause(words=("b", "c", "d", "e"))]),
        (" ".join(f"(a OR w{i})" for i in range(40)) + " NOT w7", [Clause(words=("a",), not_words=("w7",))]),
        ('NOT a (b OR NOT "a b")', [Clause(not_words=("a",))]),
    ],
)
def test_clauses(text: str, expected: list[Clause]) -> None:
    """De Morgan, repeats, contradictions and absorbed alternatives."""

    def in_any_order(clauses: Sequence[Clause]) -> set[tuple[frozenset, ...]]:
        return {tuple(frozenset(part) for part in clause) for clause in clauses}

    assert len(expected) == len(parse(text).clauses())
    assert in_any_order(expected) == in_any_order(parse(text).clauses())


def test_clauses_up_to_the_limit() -> None:
    """Exactly the limit is allowed, one more is refused with advice."""
    alternatives = " OR ".join(f"w{i}" for i in range(MAX_CLAUSES))
    assert MAX_CLAUSES == len(parse(alternatives).clauses())
    with pytest.raises(InvalidQuery, match="more than 64 alternatives: split it into several subscriptions"):
        parse(alternatives + " OR one_more").clauses()
    with pytest.raises(InvalidQuery, match="more than 2 alternatives"):
        parse("(a OR b) (c OR d)").clauses(limit=2)


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"(a{i} OR b{i})" for i in range(450)),
        "NOT (" + " OR ".join(f"(a{i} b{i})" for i in range(400)) + ")",
        " ".join("(" + " OR ".join(f"w{i}x{j}" for j in range(60)) + ")" for i in range(15)),
        "NOT (" + " ".join(f"w{i}" for i in range(900)) + ")",
    ],
)
def test_explosive_queries_are_refused_while_they_expand(text: str) -> None:
    """A query of 2^450 alternatives is refused without making them."""
    query = parse(text)
    with pytest.raises(InvalidQuery, match="more than 64 alternatives"):
        query.clauses()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("a", False),
        ("NOT a", True),
        ("a NOT b", False),
        ("a OR NOT b", True),
        ('"a b"', False),
        ('NOT "a b"', True),
        ("NOT NOT a", False),
        ("a NOT a", False),
    ],
)
def test_needs_region(text: str, expected: bool) -> None:
    """A query needs a region if it can be true of a message without any particular word."""
    assert expected == parse(text).needs_region


# ---------------------------------------------------------------------------------------------------- analyzers


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("the ramen", Word("ramen")),
        ("the AND ramen", Word("ramen")),
        ("the OR ramen", Word("ramen")),
        ("ramen NOT the", Word("ramen")),
        ("ramen (the OR the)", Word("ramen")),
        ('"the ramen"', Word("ramen")),
    ],
)
def test_stop_words_are_ignored(text: str, tree: Query) -> None:
    """A stop word counts as an operand, but leaves nothing behind."""
    assert tree == parse(text, Analyzer(language="english", stop_words=True))


def test_only_stop_words_are_refused() -> None:
    """A query of stop words does not silently become "everything"; nor does punctuation pass as a stop word."""
    analyzer = Analyzer(language="english", stop_words=True)
    for query in ("the", "NOT the", {"word": "the"}, {"not": {"and": [{"word": "the"}]}}):
        with pytest.raises(InvalidQuery, match="nothing but stop words"):
            parse(query, analyzer)
    with pytest.raises(InvalidQuery, match="no letter, digit or emoji"):
        parse("ramen ...", analyzer)


def test_stop_words_in_a_column() -> None:
    """A column with stop words takes no short cut around them."""
    analyzer = Analyzer(language="english", stop_words=True)
    compiled, table = compiled_with_table(["the ramen", "ramen"], analyzer=analyzer)
    assert [[Clause(words=("ramen",))], [Clause(words=("ramen",))]] == decoded(compiled, table)


# ---------------------------------------------------------------------------------------------------- columns


def compiled_with_table(
    queries: Sequence[str | None] | pa.Array | pa.ChunkedArray,
    has_region: Sequence[bool] | None = None,
    analyzer: Analyzer | None = None,
) -> tuple[CompiledQueries, WordTable]:
    """Compile a column into a new table."""
    table = WordTable()
    column = queries if isinstance(queries, pa.Array | pa.ChunkedArray) else pa.array(queries, pa.string())
    region = np.ones(len(column), bool) if has_region is None else np.array(has_region, bool)
    return compile_queries(column, table, analyzer=analyzer or Analyzer(), has_region=region), table


def decoded(compiled: CompiledQueries, table: WordTable) -> list[list[Clause]]:
    """Read the codes back, row by row, insisting on their order."""
    rows = []
    for first, last in zip(compiled.clause_start[:-1], compiled.clause_start[1:], strict=True):
        bounds = [compiled.code_start[clause : clause + 2] for clause in range(first, last)]
        rows.append([decoded_clause(compiled.code[begin:end].tolist(), table) for begin, end in bounds])
    return rows


def decoded_clause(code: list[int], table: WordTable) -> Clause:
    """Read one code back."""
    parts: dict[int, list] = {0: [], NOT: [], PHRASE: [], NOT_PHRASE: []}
    terms = code[: next((at for at, value in enumerate(code) if value < 0), len(code))]
    assert sorted(set(terms)) == terms
    parts[0] = [table.word(term) for term in terms]
    at, marks = len(terms), []
    while at < len(code):
        mark = code[at]
        marks.append(mark)
        size = 1 if mark == NOT else code[at + 1]
        at += 1 if mark == NOT else 2
        found = [table.word(term) for term in code[at : at + size]]
        parts[mark].append(found[0] if mark == NOT else tuple(found))
        at += size
    assert sorted(marks, reverse=True) == marks
    return Clause(*(tuple(each) for each in parts.values()))


def as_sets(rows: list[list[Clause]]) -> list[set[tuple[frozenset, ...]]]:
    """Forget the order within and between clauses, which depends on term ids."""
    return [{tuple(frozenset(part) for part in clause) for clause in row} for row in rows]


@pytest.mark.modes
@pytest.mark.small
def test_codes_of_a_small_column() -> None:
    """Each row owns the codes of its clauses, in the documented form."""
    queries = ["b a b", 'a NOT c OR "b c" NOT "c b"', None, "a NOT a", "#Tag AND Don't"]
    compiled, table = compiled_with_table(queries)
    assert [0, 1, 3, 4, 4, 5] == compiled.clause_start.tolist()
    assert np.int64 == compiled.clause_start.dtype == compiled.code_start.dtype
    assert np.int32 == compiled.code.dtype
    assert [] == compiled.errors
    assert as_sets(decoded(compiled, table)) == as_sets([list(parse(query or "").clauses()) for query in queries])
    a, b, c = table.ids_of(["a", "b", "c"], add=False).tolist()
    row_1 = compiled.code[compiled.code_start[1] : compiled.code_start[3]].tolist()
    assert [a, NOT, c, *sorted([b, c]), PHRASE, 2, b, c, NOT_PHRASE, 2, c, b] == row_1


def test_a_bad_row_never_stops_the_rest() -> None:
    """Errors are listed by row in ascending order; those rows have no clauses and add no words."""
    queries = ["a", "(lost", "", "AND lost", "a NOT", "NOT c", "b", " OR ".join(f"x{i}" for i in range(65)), "NOT c"]
    compiled, table = compiled_with_table(queries, has_region=[False] * 8 + [True])
    assert [1, 2, 3, 4, 5, 7] == [row for row, _ in compiled.errors]
    assert [1, 0, 0, 0, 0, 0, 1, 0, 1] == np.diff(compiled.clause_start).tolist()
    expected = ["unclosed", "matches everything, so it needs a region", "AND has", "NOT has", "needs a region", "64"]
    for said, (_, error) in zip(expected, compiled.errors, strict=True):
        assert said in error.reason
    assert {"a", "b", "c"} == set(table.words().to_pylist())


def test_equal_bad_queries_each_get_an_error() -> None:
    """A repeated query is judged in every row by the region of that row."""
    compiled, _ = compiled_with_table(["NOT a", "NOT a", "NOT a", "(", "("], has_region=[True, False, True, True, True])
    assert [1, 3, 4] == [row for row, _ in compiled.errors]
    assert [1, 0, 1, 0, 0] == np.diff(compiled.clause_start).tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([], pa.string()),
        pa.array([None, None], pa.null()),
        pa.array(["a b", "(a OR b)", None], pa.large_string()),
        pa.array(["zzz", "a b", "a NOT c", "zzz"]).slice(1, 2),
        pa.chunked_array([["a b"], [], ["a OR b", "c"]], pa.string()),
        pa.chunked_array([], pa.string()),
        pa.array(["a b", "a OR b", "a b"]).dictionary_encode(),
    ],
)
def test_every_kind_of_string_column(column: pa.Array | pa.ChunkedArray) -> None:
    """Slices, chunks, dictionaries, large strings, nulls and empty columns all compile."""
    compiled, table = compiled_with_table(column)
    expected = [list(parse(query or "").clauses()) for query in column.to_pylist()]
    assert as_sets(expected) == as_sets(decoded(compiled, table))


@pytest.mark.modes
@pytest.mark.small
def test_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column longer than one block compiles as if it were one."""
    monkeypatch.setattr(nearcast.query, "_BLOCK_ROWS", 2)
    queries = ["a", "b OR c", "", "(", "d c", "NOT x", "e"]
    compiled, table = compiled_with_table(queries, has_region=[True] * 5 + [False, True])
    assert [3, 5] == [row for row, _ in compiled.errors]
    expected = [list(parse(query).clauses()) if query not in ("(", "NOT x") else [] for query in queries]
    assert as_sets(expected) == as_sets(decoded(compiled, table))


def test_a_forgetful_compiler_gives_the_same_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping remembered words between blocks changes no id."""
    queries = ["a OR b", "b OR c", "c OR a", "a OR d"]
    usual, _ = compiled_with_table(queries)
    monkeypatch.setattr(nearcast.query, "_BLOCK_ROWS", 1)
    monkeypatch.setattr(nearcast.query, "_REMEMBERED_WORDS", 0)
    forgetful, _ = compiled_with_table(queries)
    assert usual.code.tolist() == forgetful.code.tolist()


almost_plain = scribbles("a B c1 AND OR NOT And #t @n # ' don't _ - é a1'b o''x", " ", "\t", "\x0b")


@pytest.mark.modes
@pytest.mark.small
@given(st.lists(st.none() | almost_plain | st.text(max_size=8).filter(str.isprintable), max_size=8), st.data())
@settings(max_examples=80)
def test_plain_rows_compile_as_the_parser_would(queries: list[str | None], data: st.DataObject) -> None:
    """The kernel and the parser give the same clauses and the same errors."""
    has_region = data.draw(st.lists(st.booleans(), min_size=len(queries), max_size=len(queries)))
    fast, fast_table = compiled_with_table(queries, has_region)
    with mock.patch.object(nearcast.query, "plain_codes", nothing_is_plain):
        slow, slow_table = compiled_with_table(queries, has_region)
    assert as_sets(decoded(slow, slow_table)) == as_sets(decoded(fast, fast_table))
    assert [(row, str(error)) for row, error in slow.errors] == [(row, str(error)) for row, error in fast.errors]
    assert set(slow_table.words().to_pylist()) == set(fast_table.words().to_pylist())


def nothing_is_plain(rows: Sequence, _: WordTable) -> tuple[np.ndarray, np.ndarray]:
    """Send every row to the parser."""
    return np.full(len(rows), -1, np.int64), np.empty(0, np.int32)


PLAIN = ["a", "a b", "a AND b", " a\tAND\nb ", "#Tag @name x_1 don't", "And or", ""]
PLAIN_AT_THE_LIMITS = ["a " * (MAX_QUERY_TERMS - 1) + "a", "b" * MAX_QUERY_CHARS]
NOT_PLAIN = [
    "AND a",
    "a AND",
    "a AND AND b",
    "a OR b",
    "NOT a",
    '"a"',
    "(a)",
    "wi-fi",
    "'tis",
    "a1'b",
    "# a",
    "é",
    "a\x0bb",
]
BEYOND_THE_LIMITS = ["a " * MAX_QUERY_TERMS + "a", "b" * (MAX_QUERY_CHARS + 1)]


@pytest.mark.modes
@pytest.mark.small
def test_plain_rows_never_reach_the_parser() -> None:
    """Words joined by spaces or AND take the kernel; whatever it cannot be sure of does not."""
    plain, others = PLAIN + PLAIN_AT_THE_LIMITS, NOT_PLAIN + BEYOND_THE_LIMITS
    rows = next(nearcast.query._blocks(pa.array(plain + others)))
    counts, _ = plain_rows.plain_codes(rows, WordTable())
    assert [True] * len(plain) + [False] * len(others) == (counts >= 0).tolist()


@pytest.mark.parametrize("has_region", [True, False])
def test_trees_compile_like_their_text(has_region: bool) -> None:
    """Queries already parsed give the codes, ids and errors of their text."""
    texts = ["a b", 'NOT a OR "b c"', "", "c NOT d", " OR ".join(f"x{i}" for i in range(65))]
    region = np.full(len(texts), has_region)
    text_table, tree_table = WordTable(), WordTable()
    with mock.patch.object(nearcast.query, "plain_codes", nothing_is_plain):
        expected = compile_queries(pa.array(texts), text_table, has_region=region)
    compiled = compile_trees([parse(text) for text in texts], tree_table, has_region=region)
    assert decoded(expected, text_table) == decoded(compiled, tree_table)
    assert [(row, str(error)) for row, error in expected.errors] == [
        (row, str(error)) for row, error in compiled.errors
    ]
    assert text_table.words() == tree_table.words()


def test_trees_compile_with_their_words_as_they_are() -> None:
    """Words of a tree made by hand are not normalised, so they can name given terms in any spelling."""
    table = WordTable()
    compiled = compile_trees([And((Word("iPad"), Word("hot dog")))], table, has_region=np.array([False]))
    assert [[Clause(words=("iPad", "hot dog"))]] == decoded(compiled, table)
    empty = compile_trees([], table, has_region=np.array([], bool))
    assert ([0], [0], []) == (empty.clause_start.tolist(), empty.code_start.tolist(), empty.code.tolist())


@pytest.mark.parametrize("name", ["split_plain", "sort_distinct"])
def test_one_signature_per_kernel(name: str) -> None:
    """All kinds of columns share one compilation of each kernel."""
    columns = pa.array(["a b"]), pa.array(["a b"], pa.large_string()), pa.array(["x", "a"]).slice(1), pa.array([None])
    for column in columns:
        compiled_with_table(column)
    kernel = getattr(plain_rows, name)
    assert 1 == len(getattr(kernel, "signatures", [None]))


@pytest.mark.parametrize(
    ("query", "column", "hint"),
    [
        ("ramen*", 6, "there are no wildcards"),
        ("*amen", 1, "there are no wildcards"),
        ("hot ra?en", 7, "stands for no other letter"),
        ("food:ramen", 1, '"food:" names no field here'),
        ('hot food:"ramen soup"', 5, '"food:" names no field here'),
        ("food:(ramen OR soup)", 1, '"food:" names no field here'),
        ('"hot broth"~3', 12, '"~3" does not allow'),
        ("ramen~", 6, '"~" does not allow'),
        ("ramen~0.8", 6, '"~0.8" does not allow'),
        ("ramen^2", 6, r'"\^2" gives no weight'),
        ('"hot broth"^2', 12, r'"\^2" gives no weight'),
        ("(a OR b)^2.5", 9, r'"\^2.5" gives no weight'),
        ("ramen|udon", 6, "write OR"),
        ("ramen||udon", 6, "write OR"),
        ("ramen&&udon", 6, "write AND"),
        ("+ramen udon", 1, "words are required anyway"),
        ("[ramen TO udon]", 1, "there are no ranges"),
        ("price {1 TO 5}", 7, "there are no ranges"),
        ("/ram[ae]n/", 1, "no regular expressions"),
    ],
)
def test_forms_of_other_languages_are_refused_with_a_hint(query: str, column: int, hint: str) -> None:
    """They mean something elsewhere; the caret shows where, the reason what to write."""
    with pytest.raises(InvalidQuery, match=hint) as caught:
        parse(query)
    assert (1, column) == (caught.value.line, caught.value.column)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("wi-fi", Phrase(("wi", "fi"))),
        ("24/7", Phrase(("24", "7"))),
        ("AT&T", Phrase(("at", "t"))),
        ("12:30", Phrase(("12", "30"))),
        ("https://ramen.example/a?b=1", Phrase(("https", "ramen", "example", "a", "b", "1"))),
        ("ramen? ramen!", And((Word("ramen"), Word("ramen")))),
        ("ramen:", Word("ramen")),
        ("[sold]", Word("sold")),
        ('"food:ramen* a|b"', Phrase(("food", "ramen", "a", "b"))),
        ("*️⃣", Word("*⃣")),
        ("C++ C# .NET F#", And((Word("c++"), Word("c#"), Word(".net"), Word("f#")))),
        ('"C++ jobs"', Phrase(("c++", "jobs"))),
        ("ＡＢＣ", Word("abc")),
    ],
)
def test_signs_that_are_part_of_text_are_taken_as_before(query: str, expected: Query) -> None:
    """Times, addresses, punctuation, names with signs, and anything in quotes."""
    assert expected == parse(query) == parse(str(parse(query))) == parse(parse(query).to_json())
