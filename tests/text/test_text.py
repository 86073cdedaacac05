import itertools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast import text as text_module
from nearcast.errors import IncompatibleStore, InvalidColumns, InvalidInput, NotSupported
from nearcast.text import Analyzer, Vocabulary
from nearcast.text import tokens as _tokens
from nearcast.text.words import UNKNOWN, WordTable

# ASCII with much of what splits and joins; the same with letters, marks, joiners and emoji; anything at all.
ascii_texts = st.text(alphabet="abZ9_'#@ -&\0\n", max_size=25)
mixed_texts = st.text(alphabet="aB9_'’#@ é\u0301ßİ\u200d\ufe0f\u20e3👍🏽❤🇩東ก＃\u00ad©", max_size=20)
any_texts = st.one_of(ascii_texts, mixed_texts, st.text(max_size=15))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n.,!", []),
        ("Hello, World", ["hello", "world"]),
        ("wi-fi", ["wi", "fi"]),
        ("AT&T", ["at", "t"]),
        ("3.14", ["3", "14"]),
        ("snake_case _x_", ["snake_case", "_x_"]),
        ("Don't DON’T", ["don't", "don't"]),
        ("rock'n'roll", ["rock'n'roll"]),
        ("dogs' 'tis 90's a''b", ["dogs", "tis", "90", "s", "a", "b"]),
        ("#Coffee @Joe", ["#coffee", "@joe"]),
        ("a#b joe@home ##x #@y @ # x", ["a", "b", "joe", "home", "#x", "@y", "x"]),
        ("#don't #2024", ["#don't", "#2024"]),
        ("nul\0byte", ["nul", "byte"]),
        ("to be or to be", ["to", "be", "or", "to", "be"]),
    ],
)
def test_tokens_of_plain_text(text: str, expected: list[str]) -> None:
    """Words, tags and names of ASCII text; all else separates."""
    assert expected == Analyzer().tokens(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ΣΊΣΥΦΟΣ", ["σίσυφοσ"]),
        ("e\u0301te\u0301 été", ["été", "été"]),
        ("İ", ["i\u0307"]),
        ("l’été", ["l'été"]),
        ("école#x #école", ["école", "x", "#école"]),
        ("Привет, мир!", ["привет", "мир"]),
        ("हिन्दी", ["हिन्दी"]),
        ("ශ්\u200dරී ලංකා", ["ශ්\u200dරී", "ලංකා"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("co\u00adoperate", ["cooperate"]),
        ("“quoted” – dash… €5", ["quoted", "dash", "5"]),
        ("＃東京 ＠名前", ["#東京", "@名前"]),
        ("x² ½", ["x2", "1", "2"]),
        ("\ud800lone\udfff", ["lone"]),
        ("a\u2028b\ufeffc", ["a", "b", "c"]),
    ],
)
def test_tokens_beyond_ascii(text: str, expected: list[str]) -> None:
    """Case folding, normal form C and word characters of every script."""
    assert expected == Analyzer().tokens(text)


@pytest.mark.parametrize(
    "emoji",
    [
        "😀",
        "👍🏽",
        "👩\u200d👩\u200d👧",
        "🏃🏽\u200d♀",
        "🇩🇪",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "1\u20e3",
        "#\u20e3",
        "❤",
        "🙂\u200d↔",
    ],
)
def test_an_emoji_is_one_token(emoji: str) -> None:
    """Skin tone, family, flags of both kinds, keycap: one token, also between words and beside itself."""
    assert [emoji] == Analyzer().tokens(emoji)
    assert ["é", emoji, emoji, "x", "#tag"] == Analyzer().tokens(f"É{emoji}{emoji}X #tag")


def test_variation_selectors_make_no_other_emoji() -> None:
    """A heart is the same token however it is asked to be drawn."""
    assert ["❤", "❤", "❤"] == Analyzer().tokens("❤\ufe0f ❤\ufe0e ❤")
    assert ["1\u20e3"] == Analyzer().tokens("1\ufe0f\u20e3")
    assert ["🏳\u200d🌈"] == Analyzer().tokens("🏳\ufe0f\u200d🌈")


def test_signs_are_emoji_only_when_asked_for() -> None:
    """A trade mark or an arrow separates; with the emoji selector behind it, it is a token."""
    assert ["acme", "phone"] == Analyzer().tokens("Acme™ phone ↔ ©")
    assert ["™\ufe0f", "ⓜ\ufe0f"] == Analyzer().tokens("™\ufe0f Ⓜ\ufe0f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C++, C# and F# on .NET.", ["c++", "c#", "and", "f#", "on", ".net"]),
        ("C++17 (C++)", ["c++", "17", "c++"]),
        ("#c++ x#c c#sharp C+++ c++a ##f#", ["#c", "x", "c", "c", "sharp", "c", "c", "a", "#f"]),
        ("ASP.NET example.net ...net .net's .nets", ["asp", "net", "example", "net", "net", "net's", "nets"]),
        ("c++#tag c#@you .net#x", ["c++", "#tag", "c#", "@you", ".net", "x"]),
        ("A+ node.js r&b", ["a", "node", "js", "r", "b"]),
    ],
)
def test_names_with_signs_are_words(text: str, expected: list[str]) -> None:
    """A few names that would be other words without their signs, in any text."""
    assert expected == _tokens.unicode_tokens(text)
    assert ["é", *expected] == _tokens.unicode_tokens(f"é {text}")
    assert ["🍜", *expected] == _tokens.unicode_tokens(f"🍜 {text}")
    table = WordTable()
    _, terms = Analyzer().encode(pa.array([text]), table, add=True)
    assert expected == [table.words()[term].as_py() for term in terms.tolist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＡＢＣ　１２", ["abc", "12"]),
        ("Ｃ＋＋ ＃ｔａｇ", ["c++", "#tag"]),
        ("ﬁsh ﾗｰﾒﾝ", ["fish", "ラーメン"]),
        ("don´t a¨b", ["don", "t", "a", "b"]),
        ("Foo™ Ⓜ️ ℹ️", ["foo", "ⓜ️", "ℹ"]),
    ],
)
def test_forms_of_one_letter_are_one(text: str, expected: list[str]) -> None:
    """Normal form KC, but for emoji, and for accents that stand alone and separate as before."""
    assert expected == _tokens.unicode_tokens(text)


@pytest.mark.parametrize("analyzer", [Analyzer(), Analyzer("en", stem=True, stop_words={"b", "a"}, max_words=7)])
def test_an_analyzer_comes_back_from_json(analyzer: Analyzer) -> None:
    """As it was, limits and stop words included."""
    assert analyzer == Analyzer.from_json(json.loads(json.dumps(analyzer.to_json())))


@pytest.mark.parametrize("rules", [1, None, 99])
def test_words_of_other_rules_are_refused(rules: int | None) -> None:
    """What was stored under them holds other words; what has no version is of the first."""
    saved = Analyzer().to_json() | {"rules": rules}
    if rules is None:
        del saved["rules"]
    with pytest.raises(IncompatibleStore, match="make it again"):
        Analyzer.from_json(saved)


def test_names_with_signs_are_not_stemmed() -> None:
    """They stay what they are."""
    assert ["c++", "c#", ".net"] == Analyzer("en", stem=True).tokens("C++ C# .NET")


@settings(max_examples=300, deadline=None)
@given(any_texts)
@example("©\ufe0f")
@example("12\ufe0f\u20e3")
def test_tokens_of_a_token_are_itself(text: str) -> None:
    """A token put into a query or a message again is found again."""
    for token in Analyzer().tokens(text):
        assert [token] == Analyzer().tokens(token)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="aB9_'#@ éßÀŉ’“…€ЖжΣσΐ\u00ad\u00a0", max_size=20))
def test_the_two_patterns_beyond_ascii_agree(text: str) -> None:
    """Text without marks and emoji takes a shorter way to the same tokens."""
    normalised = _tokens._normalised(text)

    assert _tokens._patterns().token.findall(normalised) == _tokens._PLAIN_TOKEN.findall(normalised)


@pytest.mark.parametrize(
    "hostile",
    [
        "a" + "\u0301" * 20_000 + "\u0316" * 20_000,
        "#" * 40_000,
        "a'" * 20_000,
        "é'" * 20_000,
        "é\u200d" * 20_000,
        "👩\u200d" * 20_000,
        "🇩" * 20_001,
        "🏴" + "\U000e0067" * 40_000,
        "1\u20e3" * 20_000,
        "\ufe0f" * 40_000,
    ],
    ids=lambda text: ascii(text[:2]),
)
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    """Forty thousand characters made to backtrack or to sort marks for minutes come back at once."""
    assert len(Analyzer().tokens(hostile)) <= len(hostile)


def test_long_runs_of_marks_are_cut_once() -> None:
    """Runs of marks, which normalising sorts in quadratic time, end after thirty; a cut run is not cut again."""
    cut = _tokens._normalised("a" + "\u0316" * 100)

    assert [31, 30, 30, 10] == [len(run) for run in cut.split("\u034f")]
    assert cut == _tokens._normalised(cut)


def encoded(analyzer: Analyzer, column: pa.Array, table: WordTable, *, add: bool) -> list[list[int]]:
    start, terms = analyzer.encode(column, table, add=add)
    assert (np.int64, np.int32, len(column) + 1) == (start.dtype, terms.dtype, len(start))
    return [terms[first:last].tolist() for first, last in itertools.pairwise(start)]


def encoded_by_tokens(analyzer: Analyzer, texts: list[str | None]) -> tuple[list[list[int]], list[str]]:
    known: dict[str, int] = {}
    rows = [[known.setdefault(token, len(known)) for token in analyzer.tokens(text or "")] for text in texts]
    return rows, list(known)


def storable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


ANALYZERS = [
    Analyzer(),
    Analyzer("en", stem=True),
    Analyzer("de", stop_words=True),
    Analyzer("en", stem=True, stop_words=frozenset({"A", "été"})),
]


@pytest.mark.modes
@pytest.mark.small
@pytest.mark.parametrize("analyzer", ANALYZERS, ids=["plain", "stems", "stop words", "stems and own stop words"])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), any_texts.filter(storable), st.just("The running dog an der Straße")), max_size=8))
def test_encode_is_tokens(analyzer: Analyzer, texts: list[str | None]) -> None:
    """Whole columns give the tokens of each row, in order, new words numbered by first appearance."""
    table = WordTable()

    rows = encoded(analyzer, pa.array(texts, pa.string()), table, add=True)

    expected, words = encoded_by_tokens(analyzer, texts)
    assert expected == rows
    assert words == table.words().to_pylist()


@pytest.mark.modes
@pytest.mark.small
@settings(max_examples=30, deadline=None)
@given(st.lists(any_texts.filter(storable), min_size=1, max_size=8), st.data())
def test_encode_reads_slices_chunks_and_large_strings(texts: list[str], data: st.DataObject) -> None:
    """The layout of a column in memory changes nothing, nor does the size of a block."""
    first = data.draw(st.integers(0, len(texts)))
    column = pa.array(texts, data.draw(st.sampled_from([pa.string(), pa.large_string()])))
    chunked = pa.chunked_array([column[first:], column[:first]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "_BLOCK_BYTES", data.draw(st.integers(0, 40)))

        rows = encoded(Analyzer(), chunked, WordTable(), add=True)

    assert encoded_by_tokens(Analyzer(), texts[first:] + texts[:first])[0] == rows


@pytest.mark.modes
@pytest.mark.small
def test_encode_without_add_keeps_unknown_words_in_place() -> None:
    """A word not in the table is -1 where it stands, so that phrases cannot close over it; nothing is added."""
    table = WordTable()
    table.ids_of(["hot", "dog"], add=True)

    rows = encoded(Analyzer(), pa.array(["hot nice dog", None, "", "ça hot"]), table, add=False)

    assert [[0, UNKNOWN, 1], [], [], [UNKNOWN, 0]] == rows
    assert len(table) == 2


def test_encode_of_nothing() -> None:
    """A column without rows has one offset and no terms."""
    for column in (pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        assert [] == encoded(Analyzer(), column, WordTable(), add=True)


def test_encode_refuses_numbers() -> None:
    """A column that is no text says so."""
    with pytest.raises(InvalidColumns, match="a column of int64 was given where text is needed"):
        Analyzer().encode(pa.array([1]), WordTable(), add=True)


def test_stemming_leaves_tags_names_and_emoji_alone() -> None:
    """Only words are stemmed."""
    tokens = Analyzer("en", stem=True).tokens("Houses #houses @houses dog's 👍🏽 1\u20e3")

    assert ["hous", "#houses", "@houses", "dog", "👍🏽", "1\u20e3"] == tokens


def test_stop_words_vanish_before_stemming() -> None:
    """Stop words are compared as written, tags of the same letters stay."""
    assert ["fire", "#the", "can'ter"] == Analyzer("en", stop_words=True).tokens("The fire can’t be #the can'ter")
    assert ["strasse"] == Analyzer("de", stop_words=True).tokens("daß die Straße")


def test_given_stop_words_are_read_like_text() -> None:
    """One may give one's own stop words for any language, in any case."""
    analyzer = Analyzer(stop_words=["ÉTÉ", "Og"])  # type: ignore[arg-type]

    assert ["vinter"] == analyzer.tokens("été og vinter")
    assert analyzer == Analyzer(stop_words=frozenset({"Og", "ÉTÉ"}))


@pytest.mark.parametrize("name", ["en", "EN", "english", "English", "en-GB", "en_US"])
def test_a_language_has_many_names(name: str) -> None:
    """Codes, regional codes and English names mean one language."""
    assert Analyzer("en", stem=True) == Analyzer(name, stem=True)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Analyzer(stem=True), "stem=True needs a language"),
        (lambda: Analyzer(stop_words=True), "stop_words=True needs a language"),
        (lambda: Analyzer("zz", stem=True), "language 'zz' has no stemmer; use one of ar, ca"),
        (lambda: Analyzer("ja", stop_words=True), "language 'ja' has no list of stop words: use one of de, en"),
        (lambda: Analyzer(segmenter="jieba"), "segmenter 'jieba' is not known: use 'unicode' or 'icu'"),
    ],
)
def test_impossible_analyzers_are_refused(make: Callable[[], Analyzer], reason: str) -> None:
    """An analyzer that could not work says why when it is made."""
    with pytest.raises(InvalidInput, match=reason):
        make()


def test_without_icu_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for ICU where it is missing names the extra."""
    monkeypatch.setitem(sys.modules, "icu4py.breakers", None)
    _tokens.icu_word_breaker.cache_clear()

    with pytest.raises(NotSupported, match=r"pip install 'nearcast\[icu\]'"):
        Analyzer(segmenter="icu")


def test_icu_cuts_scripts_without_spaces() -> None:
    """Thai and Chinese are cut into words; tags, names, emoji and all other words are as without ICU."""
    pytest.importorskip("icu4py")
    analyzer = Analyzer(segmenter="icu")

    assert ["ฉัน", "รัก", "ประเทศไทย"] == analyzer.tokens("ฉันรักประเทศไทย")
    assert ["我", "爱", "北京"] == analyzer.tokens("我爱北京")
    assert ["#我爱北京", "👍🏽", "ipad", "を", "don't", "3", "14"] == analyzer.tokens("#我爱北京👍🏽iPadを DON’T 3.14")
    assert ["plain", "3", "14"] == analyzer.tokens("plain 3.14")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(ascii_texts, mixed_texts), max_size=5))
def test_icu_encodes_as_it_splits(texts: list[str]) -> None:
    """With ICU too, columns give the tokens of each row."""
    pytest.importorskip("icu4py")
    analyzer = Analyzer("ja", segmenter="icu")

    rows = encoded(analyzer, pa.array(texts, pa.string()), WordTable(), add=True)

    assert encoded_by_tokens(analyzer, texts)[0] == rows


@pytest.fixture
def coffee() -> Vocabulary:
    """Three documents: coffee in two of them (twice in one), tea and bar in one each."""
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["coffee", "bar", "coffee"], ["tea"], ["coffee"]])
    return vocabulary


@pytest.mark.modes
@pytest.mark.small
def test_a_term_counts_once_per_document(coffee: Vocabulary) -> None:
    """Document frequency counts documents, not occurrences."""
    assert [2, 1, 1, 0] == coffee.df(["coffee", "bar", "tea", "juice"]).tolist()
    assert [0, 1, 2, UNKNOWN] == coffee.ids(["coffee", "bar", "tea", "juice"]).tolist()
    assert coffee.documents == 3


def test_idf_is_the_smoothed_formula(coffee: Vocabulary) -> None:
    """idf = ln((1 + N) / (1 + df)) + 1, an unknown word having df 0."""
    assert [math.log(4 / 3) + 1, math.log(4 / 1) + 1] == coffee.idf(["coffee", "juice"]).tolist()


def test_an_empty_vocabulary_weighs_every_word_one() -> None:
    """Before anything is learned all words weigh 1."""
    assert [1.0, 1.0] == Vocabulary().idf(["any", "word"]).tolist()


@pytest.mark.modes
@pytest.mark.small
@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), max_size=8), st.integers(0, 8))
def test_learning_in_parts_is_learning_at_once(documents: list[list[str]], cut: int) -> None:
    """However documents are cut into batches, the counts are those of plain counting."""
    vocabulary = Vocabulary()
    vocabulary.learn_tokens(documents[:cut])
    vocabulary.learn_tokens(documents[cut:])

    assert [sum(word in d for d in documents) for word in "abcdef"] == vocabulary.df(list("abcdef")).tolist()
    assert len(documents) == vocabulary.documents


def test_learning_a_text_column() -> None:
    """Texts are tokenised by the given analyzer; a null is a document without words."""
    vocabulary = Vocabulary()
    vocabulary.learn_texts(pa.array(["Hot coffee", None, "coffee COFFEE"]), Analyzer())

    assert ([2, 1], 3) == (vocabulary.df(["coffee", "hot"]).tolist(), vocabulary.documents)


def test_unknown_terms_are_not_counted() -> None:
    """A row encoded without adding counts as a document, its unknown words do not."""
    vocabulary = Vocabulary()
    vocabulary.learn(np.array([0, 2]), np.array([UNKNOWN, UNKNOWN]))

    assert (0, 1) == (len(vocabulary), vocabulary.documents)


def test_terms_of_another_table_are_refused(coffee: Vocabulary) -> None:
    """Ids beyond the table cannot be its own."""
    with pytest.raises(InvalidInput, match="term 99 is not in a vocabulary of 3 words"):
        coffee.learn(np.array([0, 1]), np.array([99]))


def test_words_others_add_to_a_shared_table_stand_in_no_document() -> None:
    """Queries may add words to the table a vocabulary learns into."""
    table = WordTable()
    vocabulary = Vocabulary(table)
    vocabulary.learn_tokens([["a"]])
    version = vocabulary.version
    table.ids_of(["asked"], add=True)

    assert [1, 0] == vocabulary.df(["a", "asked"]).tolist()
    assert [1, 0] == vocabulary.df_by_term.tolist()
    assert version == vocabulary.version
    vocabulary.learn_tokens([["asked"]])
    assert [1, 1] == vocabulary.df(["a", "asked"]).tolist()


def test_version_depends_on_content_only() -> None:
    """The order of learning and so the ids do not matter; every count does."""
    one, other, third = Vocabulary(), Vocabulary(), Vocabulary()
    one.learn_tokens([["é", "b"], ["b"]])
    other.learn_tokens([["b"], ["b", "é"]])
    third.learn_tokens([["b"], ["b", "é"], []])

    assert one.version == other.version
    assert one.version != third.version
    assert one.version != Vocabulary().version
    before = one.version
    one.learn_tokens([["é"]])
    assert before != one.version


def test_version_is_the_same_everywhere() -> None:
    """A version written into a manifest means the same content on another machine and in another process."""
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["coffee", "bar"], ["coffee", "thé"]])

    assert vocabulary.version == "36f896b373c44a80"


def test_version_tells_where_one_word_ends() -> None:
    """Equal letters cut otherwise are other words."""
    one, other = Vocabulary(), Vocabulary()
    one.learn_tokens([["ab", "c"]])
    other.learn_tokens([["a", "bc"]])

    assert one.version != other.version


def test_a_snapshot_stays_as_it_was(coffee: Vocabulary) -> None:
    """Later learning does not reach a snapshot; ids stay the same; and it does not learn."""
    snapshot = coffee.snapshot()
    version = snapshot.version
    coffee.learn_tokens([["juice", "coffee"]])

    assert [2, 0] == snapshot.df(["coffee", "juice"]).tolist()
    assert (3, version, 3) == (snapshot.documents, snapshot.version, len(snapshot))
    assert coffee.ids(["tea"]).tolist() == snapshot.ids(["tea"]).tolist()
    for learn in (
        lambda: snapshot.learn_tokens([["new"]]),
        lambda: snapshot.learn_texts(pa.array(["new"]), Analyzer()),
        lambda: snapshot.learn(np.array([0]), np.array([])),
    ):
        with pytest.raises(NotSupported, match="a vocabulary snapshot does not learn"):
            learn()
    assert len(snapshot) == 3


def test_save_and_open(coffee: Vocabulary, tmp_path: Path) -> None:
    """An opened vocabulary has the same ids, counts and version, and learns on."""
    coffee.save(tmp_path)

    opened = Vocabulary.open(tmp_path)

    assert coffee.version == opened.version
    assert [0, 1, 2] == opened.ids(["coffee", "bar", "tea"]).tolist()
    opened.learn_tokens([["tea"]])
    assert [2] == opened.df(["tea"]).tolist()


def test_open_refuses_what_is_no_vocabulary(coffee: Vocabulary, tmp_path: Path) -> None:
    """An empty folder, another format and files that do not belong together are refused."""
    with pytest.raises(IncompatibleStore, match="not a saved vocabulary"):
        Vocabulary.open(tmp_path)
    coffee.save(tmp_path)
    np.save(tmp_path / "df.npy", np.zeros(7, np.int64))
    with pytest.raises(IncompatibleStore, match=r"df\.npy is damaged: it has 7 rows where 3 are expected"):
        Vocabulary.open(tmp_path)
    (tmp_path / "vocabulary.json").write_text('{"format": 99}')
    with pytest.raises(IncompatibleStore, match="format 99 is not the 1 this version reads"):
        Vocabulary.open(tmp_path)


def test_parquet_round_trip(coffee: Vocabulary, tmp_path: Path) -> None:
    """The Parquet form has columns term and df, the number of documents in its metadata, and loses nothing."""
    path = tmp_path / "vocabulary.parquet"
    coffee.to_parquet(path)

    table = pq.read_table(path)
    assert {"term": ["coffee", "bar", "tea"], "df": [2, 1, 1]} == table.to_pydict()
    assert table.schema.metadata[b"nearcast.documents"] == b"3"
    assert [path] == list(tmp_path.iterdir())
    assert coffee.version == Vocabulary.from_parquet(path).version


def vocabulary_file(
    path: Path, columns: dict[str, object], documents: bytes | None = b"9", types: dict[str, pa.DataType] | None = None
) -> Path:
    table = pa.table({name: pa.array(column, (types or {}).get(name)) for name, column in columns.items()})
    pq.write_table(table.replace_schema_metadata({b"nearcast.documents": documents} if documents else None), path)
    return path


def test_weights_travel_along(tmp_path: Path) -> None:
    """Given weights are kept through every form, count in the version, and may be left out for some words."""
    columns = {"term": ["a", "b"], "df": [1, 2], "weight": [0.5, None]}
    path = vocabulary_file(tmp_path / "v.parquet", columns)
    vocabulary = Vocabulary.from_parquet(path)
    vocabulary.save(tmp_path / "saved")
    vocabulary.to_parquet(tmp_path / "again.parquet")

    for twin in (
        vocabulary.snapshot(),
        Vocabulary.open(tmp_path / "saved"),
        Vocabulary.from_parquet(tmp_path / "again.parquet"),
    ):
        assert twin.weight_by_term is not None
        np.testing.assert_array_equal([0.5, np.nan], twin.weight_by_term)
        assert vocabulary.version == twin.version
    unweighted = Vocabulary.from_parquet(vocabulary_file(path, {"term": ["a", "b"], "df": [1, 2]}))
    assert vocabulary.version != unweighted.version
    assert unweighted.weight_by_term is None


@pytest.mark.parametrize(
    ("columns", "documents", "reason"),
    [
        ({"word": ["a"], "df": [1]}, b"9", "no column 'term', only word, df"),
        ({"term": ["a"]}, b"9", "no column 'df', only term"),
        ({"term": ["a", "b"], "df": [1, -1]}, b"9", "df of 'b' is -1: expected 0 to 9 documents"),
        ({"term": ["a", "b"], "df": [1, 10]}, b"9", "df of 'b' is 10: expected 0 to 9 documents"),
        ({"term": ["a", "b"], "df": [1, None]}, b"9", "column 'df' has a null"),
        ({"term": ["a"], "df": [0.5]}, b"9", "column 'df' is double: expected a whole number"),
        ({"term": ["a", "b", "a"], "df": [1, 1, 1]}, b"9", "term 'a' stands there twice"),
        ({"term": ["a", None], "df": [1, 1]}, b"9", "column 'term' has a null"),
        ({"term": [1, 2], "df": [1, 1]}, b"9", "column 'term': a column of int64 was given where text is needed"),
        ({"term": ["a"], "df": [1], "weight": [-0.1]}, b"9", "weight of 'a' is -0.1: expected 0, or a number"),
        ({"term": ["a"], "df": [1], "weight": [math.nan]}, b"9", "weight of 'a' is nan"),
        ({"term": ["a"], "df": [1], "weight": [math.inf]}, b"9", "weight of 'a' is inf"),
        ({"term": ["a"], "df": [1], "weight": [1e-90]}, b"9", "is 1e-90: expected 0, or a number from 1e-30 to 1e+30"),
        ({"term": ["a"], "df": [1], "weight": [1e90]}, b"9", "weight of 'a' is 1e+90: expected 0, or a number"),
        ({"term": ["a"], "df": [1], "weight": ["x"]}, b"9", "column 'weight' is string: expected numbers"),
        ({"term": ["a"], "df": [1]}, None, "'nearcast.documents' is missing: set it to the number of documents"),
        ({"term": ["a"], "df": [1]}, b"-4", "'nearcast.documents' is '-4'"),
    ],
)
def test_a_bad_vocabulary_file_says_what_is_wrong(
    columns: dict[str, object], documents: bytes | None, reason: str, tmp_path: Path
) -> None:
    """Each fault of a Parquet file is named in one line with the file."""
    path = vocabulary_file(tmp_path / "v.parquet", columns, documents)

    with pytest.raises(InvalidColumns) as caught:
        Vocabulary.from_parquet(path)

    assert reason in str(caught.value)
    assert "v.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_parquet_says_so(tmp_path: Path) -> None:
    """A text file, a folder and a missing file each give one line."""
    path = tmp_path / "v.parquet"
    path.write_text("term,df\na,1\n")
    with pytest.raises(InvalidColumns, match=r"v\.parquet: not a Parquet file that can be read"):
        Vocabulary.from_parquet(path)
    with pytest.raises(InvalidColumns, match="not a Parquet file that can be read"):
        Vocabulary.from_parquet(tmp_path)
    with pytest.raises(InvalidColumns, match=r"missing\.parquet: no such file"):
        Vocabulary.from_parquet(tmp_path / "missing.parquet")


def test_other_types_of_the_same_values_are_read(tmp_path: Path) -> None:
    """Small integers, dictionaries and columns nobody asked for do no harm."""
    columns = {"term": ["a", "b"], "df": [1, 2], "note": [None, "x"], "weight": [1, 2]}
    types = {"term": pa.dictionary(pa.int8(), pa.string()), "df": pa.uint8()}
    path = vocabulary_file(tmp_path / "v.parquet", columns, types=types)

    vocabulary = Vocabulary.from_parquet(path)

    assert [1, 2] == vocabulary.df(["a", "b"]).tolist()
    assert repr(vocabulary) == f"<Vocabulary: 2 words from 9 documents, version {vocabulary.version}>"
