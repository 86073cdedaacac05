"""From text to term ids: `Analyzer` says which tokens a text has, `Vocabulary` how common each word is."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.text import stop_words as _stop_words
from nearcast.text import tokens as _tokens
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import Spans, WordTable, read_only, split_ascii, string_spans

__all__ = ["Analyzer", "Vocabulary"]

#: Text is encoded in blocks of about this many bytes, which bounds the scratch memory.
_BLOCK_BYTES = 1 << 22
_DROPPED = -2


@dataclass(frozen=True)
class Analyzer:
    """How text becomes tokens; the same one must serve queries and messages.

    `language` is a code or an English name ("de", "german"); stemming and stop words need it. `stop_words` is True for
    the list of the language, or the words themselves. `segmenter="icu"` cuts words of scripts written without spaces
    (Chinese, Japanese, Thai, Lao, Khmer, Burmese) by dictionary and needs the extra `nearcast[icu]`. A message with
    more than `max_words` words, or `max_bytes` bytes of text and terms in UTF-8, is refused.
    """

    language: str | None = None
    stem: bool = False
    stop_words: bool | frozenset[str] = False
    segmenter: str = "unicode"
    max_words: int = 100_000
    max_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        if self.language is not None:
            object.__setattr__(self, "language", _tokens.language_code(self.language))
        if not isinstance(self.stop_words, bool):
            object.__setattr__(self, "stop_words", frozenset(self.stop_words))
        for name in ("max_words", "max_bytes"):
            limit = getattr(self, name)
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
                raise InvalidInput(f"{name} is {limit!r}; expected a whole number above 0", field=name)
        if self.segmenter not in ("unicode", "icu"):
            raise InvalidInput(f"segmenter {self.segmenter!r} is not known: use 'unicode' or 'icu'", field="segmenter")
        if self.segmenter == "icu":
            _tokens.icu_word_breaker()
        if self.stem:
            _tokens.stem_algorithm(self._language_for("stem"))
        if self.stop_words is True and self._language_for("stop_words") not in _stop_words.LANGUAGES:
            known = ", ".join(_stop_words.LANGUAGES)
            raise InvalidInput(
                f"language {self.language!r} has no list of stop words: use one of {known}, or give the words",
                field="stop_words",
            )

    def _language_for(self, option: str) -> str:
        if self.language is None:
            raise InvalidInput(f"{option}=True needs a language, such as Analyzer(language='en')", field="language")
        return self.language

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads, with the version of the rules that `nearcast.text.tokens` follows."""
        words = self.stop_words
        listed = words if isinstance(words, bool) else sorted(words)
        return {**dataclasses.asdict(self), "stop_words": listed, "rules": _tokens.RULES}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Analyzer":
        """Return what `to_json` wrote; IncompatibleStore if words were told apart by other rules then."""
        saved = dict(saved)
        if saved.pop("rules", 1) != _tokens.RULES:
            raise IncompatibleStore(
                "it was written by a version of nearcast that split text into other words, so what it holds would not"
                " find them; make it again from the subscriptions"
            )
        if not isinstance(saved["stop_words"], bool):
            saved["stop_words"] = frozenset(saved["stop_words"])
        return cls(**saved)

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of `text` in order, repeats kept; the definition `encode` follows."""
        found = self._split(text)
        if not self._rewrites:
            return found
        return [token for token in map(self._rewritten, found) if token is not None]

    def encode(
        self, texts: pa.Array | pa.ChunkedArray, table: WordTable, *, add: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `start` (int64, n + 1) and `terms` (int32): row i has the tokens terms[start[i]:start[i + 1]].

        Tokens are in order with repeats; a word not in `table` is -1, or is added when `add`. A null has no tokens.
        """
        if self._rewrites:
            return self._encode_rewritten(texts, table, add)
        counts, terms = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for block in _blocks(texts):
            block_counts, spans = _split_rows(block, self._split)
            counts.append(block_counts)
            terms.append(table.ids(spans.data, spans.start, spans.length, add=add))
        return np.cumsum(np.concatenate(counts)), np.concatenate(terms)

    def _encode_rewritten(self, texts: pa.Array, table: WordTable, add: bool) -> tuple[np.ndarray, np.ndarray]:
        """Encode as `encode`, stemming each distinct word once."""
        seen = WordTable()
        start, words = Analyzer(self.language, segmenter=self.segmenter).encode(texts, seen, add=True)
        rewritten = [self._rewritten(word) for word in seen.words().to_pylist()]
        kept = np.array([word is not None for word in rewritten], bool)
        term_of = np.full(len(rewritten), _DROPPED, np.int32)
        term_of[kept] = table.ids_of([word for word in rewritten if word is not None], add=add)
        terms = term_of[words]
        is_kept = terms != _DROPPED
        return np.concatenate([[0], np.cumsum(is_kept)])[start], terms[is_kept]

    @property
    def _rewrites(self) -> bool:
        return self.stem or bool(self.stop_words)

    def _split(self, text: str) -> list[str]:
        return _tokens.unicode_tokens(text) if self.segmenter == "unicode" else _tokens.icu_tokens(text, self.language)

    def _rewritten(self, token: str) -> str | None:
        """Return the token as it counts: stemmed, or None for a stop word."""
        if self.stop_words and token in _dropped_words(self.language, self.stop_words):
            return None
        return _tokens.stemmed(token, self.language) if self.stem and self.language else token


@functools.lru_cache(maxsize=64)
def _dropped_words(language: str | None, given: bool | frozenset[str]) -> frozenset[str]:
    """Return the stop words in the spelling of tokens."""
    words: Iterable[str] = _stop_words.stop_words_of(language or "") if isinstance(given, bool) else given
    return frozenset(token for word in words for token in _tokens.unicode_tokens(word))


def _blocks(texts: pa.Array | pa.ChunkedArray) -> Iterator[Spans]:
    """Yield the rows in blocks of about `_BLOCK_BYTES` bytes, at least one row each."""
    for spans in string_spans(texts):
        first = 0
        while first < len(spans):
            last = int(np.searchsorted(spans.start, spans.start[first] + _BLOCK_BYTES, side="right"))
            yield spans.rows(first, last)
            first = last


def _split_rows(rows: Spans, split: Callable[[str], list[str]]) -> tuple[np.ndarray, Spans]:
    """Return the number of tokens in each row, and all tokens in order."""
    base = int(rows.start[0])
    n_bytes = int((rows.start + np.maximum(rows.length, 0)).max()) - base
    lowered = np.empty(n_bytes, np.uint8)
    start = np.empty((n_bytes + len(rows)) // 2 + 1, np.int64)
    length = np.empty(start.size, np.int32)
    counts = np.empty(len(rows), np.int64)
    n = split_ascii(rows.data, rows.start, rows.length, base, lowered, start, length, counts)
    plain = Spans(read_only(lowered), start[:n], length[:n])
    beyond_ascii = counts < 0
    if not beyond_ascii.any():
        return counts, plain
    tokens = [split(_row_text(rows, row)) for row in np.flatnonzero(beyond_ascii).tolist()]
    counts[beyond_ascii] = [len(row) for row in tokens]
    flat = pa.array([token for row in tokens for token in row], pa.large_string())
    return counts, _interleaved(plain, next(string_spans(flat)), np.repeat(beyond_ascii, counts))


def _row_text(rows: Spans, row: int) -> str:
    first = int(rows.start[row])
    return rows.data[first : first + int(rows.length[row])].tobytes().decode("utf-8", "replace")


def _interleaved(ours: Spans, others: Spans, is_other: np.ndarray) -> Spans:
    """Return the spans of both in one order: the next of `others` where `is_other`, else the next of `ours`."""
    start = np.empty(len(is_other), np.int64)
    length = np.empty(len(is_other), np.int32)
    start[~is_other], length[~is_other] = ours.start, ours.length
    start[is_other], length[is_other] = others.start + len(ours.data), others.length
    return Spans(read_only(np.concatenate([ours.data, others.data])), start, length)
