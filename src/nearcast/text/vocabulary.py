"""How common each word is: ids, document frequencies and versions, in memory and in files."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast._saved import replace_file, save_array, save_text
from nearcast.errors import IncompatibleStore, InvalidColumns, InvalidInput, NotSupported, unreadable_store
from nearcast.saved_files.arrays import SavedArrays
from nearcast.saved_files.contents import damaged, is_signed, read_signed, signed
from nearcast.text.words import WordTable, string_spans, writable

if TYPE_CHECKING:
    from nearcast.text import Analyzer

_DOCUMENTS_KEY = b"nearcast.documents"
_FORMAT = 1
#: A given weight is 0 or within these: products of squared lengths stay far from 0 and from infinity.
LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e30


@kernel
def _count_documents(start, terms, last_row, df):
    """Add to `df` one for each row in which a term stands; `last_row` begins as -1 for every term."""
    for row in range(start.size - 1):
        for i in range(start[row], start[row + 1]):
            term = terms[i]
            if term >= 0 and last_row[term] != row:
                last_row[term] = row
                df[term] += 1


class Vocabulary:
    """Words with int32 ids, and in how many documents each one stands.

    `table` may be shared: a word that others add to it counts as one in no document. Lookups may run in several threads
    at once; the caller keeps them apart from `learn`.
    """

    def __init__(self, table: WordTable | None = None):
        self.table = WordTable() if table is None else table
        self.is_snapshot = False
        self._documents = 0
        self._df = np.zeros(len(self.table), np.int64)
        self._weight: np.ndarray | None = None
        self._version: str | None = None

    @classmethod
    def summed(cls, counts: Iterable[tuple[pa.Array, np.ndarray, int]]) -> "Vocabulary":
        """Return a vocabulary of words that were counted in parts: words, in how many rows each stands, all rows.

        A word may come several times in a part.
        """
        vocabulary = cls()
        for words, df, documents in counts:
            terms = vocabulary.table.ids_of_column(words, add=True)
            total = vocabulary.df_by_term
            np.add.at(total, terms, df[: len(terms)])
            vocabulary._df = total
            vocabulary._documents += documents
        return vocabulary

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        kind = "snapshot of " if self.is_snapshot else ""
        return f"<Vocabulary: {kind}{len(self):,} words from {self.documents:,} documents, version {self.version}>"

    @property
    def documents(self) -> int:
        """How many documents were counted."""
        return self._documents

    @property
    def df_by_term(self) -> np.ndarray:
        """The number of documents of each term, by id (int64)."""
        return np.concatenate([self._df, np.zeros(len(self.table) - len(self._df), np.int64)])

    @property
    def weight_by_term(self) -> np.ndarray | None:
        """The given weight of each term, by id (float64, NaN where none was given), or None without any."""
        if self._weight is None:
            return None
        return np.concatenate([self._weight, np.full(len(self.table) - len(self._weight), np.nan)])

    @property
    def version(self) -> str:
        """A short hash of the content; equal content has an equal version in every process, whatever the ids.

        Words in no document and without a weight do not count: they change no answer.
        """
        if self._version is None:
            self._version = self._content_hash()
        return self._version

    def _content_hash(self) -> str:
        import pyarrow.compute as pc

        df, weight = self.df_by_term, self.weight_by_term
        weight = np.full(len(df), np.nan) if weight is None else weight
        rows = np.flatnonzero((df != 0) | ~np.isnan(weight))
        words = self.table.words().take(_arrow.numbers(rows))
        order = _arrow.array_of(pc.sort_indices(words))
        digest = hashlib.blake2b(digest_size=8)
        digest.update(f"{self.documents} {len(rows)} ".encode())
        for spans in string_spans(words.take(_arrow.numbers(order))):
            digest.update(spans.length.astype("<i4").tobytes())
            digest.update(spans.data.tobytes())
        digest.update(df[rows][order].astype("<i8").tobytes())
        # One bit pattern for "none" and one for zero, whatever arithmetic made them.
        shown = np.where(np.isnan(weight), -1.0, weight + 0.0)
        digest.update(shown[rows][order].astype("<f8").tobytes())
        return digest.hexdigest()

    def learn(self, start: np.ndarray, terms: np.ndarray) -> None:
        """Count the documents of columns from `Analyzer.encode`: each term once per row; -1 is no word."""
        self._must_learn()
        start, terms = writable(start, np.int64), writable(terms, np.int32)
        if len(terms) and terms.max() >= len(self.table):
            raise InvalidInput(
                f"term {terms.max()} is not in a vocabulary of {len(self)} words: encode with its own table",
                field="terms",
            )
        df = self.df_by_term
        _count_documents(start, terms, np.full(len(df), -1, np.int64), df)
        self._df, self._version = df, None
        self._documents += max(len(start) - 1, 0)

    def learn_tokens(self, documents: Iterable[Iterable[str]]) -> None:
        """Count documents given as tokens; new words are added."""
        self._must_learn()
        tokens = [_tokens(document) for document in ([documents] if isinstance(documents, str) else documents)]
        start = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum([len(document) for document in tokens], out=start[1:])
        self.learn(start, self.table.ids_of([token for document in tokens for token in document], add=True))

    def learn_texts(self, texts: pa.Array | pa.ChunkedArray | Iterable[str], analyzer: "Analyzer") -> None:
        """Count the documents of a text column, or of a list of texts; new words are added."""
        self._must_learn()
        self.learn(*analyzer.encode(_text_column(texts), self.table, add=True))

    def _must_learn(self) -> None:
        if self.is_snapshot:
            raise NotSupported("a vocabulary snapshot does not learn: teach the vocabulary it was taken from")

    def ids(self, words: Iterable[str]) -> np.ndarray:
        """Return the int32 ids of the words, -1 for an unknown one."""
        return self.table.ids_of(words, add=False)

    def df(self, words: Iterable[str]) -> np.ndarray:
        """Return in how many documents each word stands (int64), 0 for an unknown one."""
        return self.df_of(self.ids(words))

    def idf(self, words: Iterable[str]) -> np.ndarray:
        """Return ln((1 + N) / (1 + df)) + 1 of each word (float64); 1 for every word while nothing was learned."""
        return self.idf_of(self.ids(words))

    def df_of(self, terms: np.ndarray) -> np.ndarray:
        """Return `df` by term id; 0 for -1 and for ids beyond those learned."""
        terms = np.asarray(terms)
        is_known = (terms >= 0) & (terms < len(self._df))
        df = np.zeros(terms.shape, np.int64)
        df[is_known] = self._df[terms[is_known]]
        return df

    def idf_of(self, terms: np.ndarray) -> np.ndarray:
        """Return `idf` by term id."""
        return np.log((1 + self.documents) / (1 + self.df_of(terms))) + 1

    def snapshot(self) -> "Vocabulary":
        """Return a copy that cannot learn, with the same ids and version; later learning here does not change it.

        A snapshot returns itself.
        """
        if self.is_snapshot:
            return self
        taken = Vocabulary(self.table.copy())
        taken._documents, taken.is_snapshot = self.documents, True
        taken._df, taken._version = self.df_by_term, self._version
        taken._weight = self.weight_by_term
        return taken

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write words, ids, counts and weights into `folder`, each file replaced in one step."""
        folder = Path(folder)
        self.table.save(folder)
        save_array(folder / "df.npy", self.df_by_term)
        weight = self.weight_by_term
        if weight is not None:
            save_array(folder / "weight.npy", weight)
        about = {"format": _FORMAT, "documents": self.documents, "words": len(self), "has_weight": weight is not None}
        save_text(folder / "vocabulary.json", signed(about).decode())

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Vocabulary":
        """Return the vocabulary saved in `folder`, with the same ids; IncompatibleStore if files are bad."""
        arrays = SavedArrays(folder)
        about = _read_about(arrays.folder / "vocabulary.json")
        opened = cls(WordTable.open(folder))
        opened._documents = about["documents"]
        opened._df = arrays.loaded("df", np.int64)
        arrays.length("df", opened._df, len(opened))
        arrays.within("df", opened._df, 0, np.iinfo(np.int64).max)
        if about["has_weight"]:
            opened._weight = arrays.loaded("weight", np.float64)
            arrays.length("weight", opened._weight, len(opened))
            given = opened._weight[~np.isnan(opened._weight)]
            arrays.within("weight", given[given != 0], LEAST_WEIGHT, MOST_WEIGHT)
        if len(opened) != about["words"]:
            raise damaged(f"{folder}/vocabulary.json", f"it tells of {about['words']} words, not {len(opened)}")
        return opened

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table of the words in one step."""
        import pyarrow.parquet as pq

        table = self.to_table()
        replace_file(Path(path), lambda temporary: pq.write_table(table, temporary))

    def to_table(self) -> pa.Table:
        """Return the words in order of their ids as `term`, `df` and, if any was given, `weight`."""
        columns = {"term": self.table.words(), "df": pa.array(self.df_by_term)}
        weight = self.weight_by_term
        if weight is not None:
            columns["weight"] = pa.array(weight, mask=np.isnan(weight))
        return pa.table(columns).replace_schema_metadata({_DOCUMENTS_KEY: str(self.documents)})

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Return the vocabulary of a file as `to_parquet` writes it; InvalidColumns says what is wrong with another."""
        checks = _VocabularyTable(str(path))
        return checks.read(checks.of_file())

    @classmethod
    def from_table(cls, table: pa.Table) -> "Vocabulary":
        """Return the vocabulary of a table as `to_table` returns it; InvalidColumns says what is wrong with another."""
        return _VocabularyTable("vocabulary").read(table)


def _tokens(document: Iterable[str]) -> list[str]:
    """Return the words of a document; a text would be taken apart into letters, without a word."""
    if isinstance(document, str):
        raise InvalidInput(
            f"a document is {document[:40]!r}; expected a list of words, or use learn_texts", field="documents"
        )
    return list(document)


def _text_column(texts: Any) -> pa.Array | pa.ChunkedArray:
    """Return texts as a column."""
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        return texts
    try:
        return pa.array(None if isinstance(texts, str) else list(texts), pa.string())
    except (TypeError, pa.ArrowException):
        raise InvalidInput(
            f"texts is {repr(texts)[:40]}; expected a list of str or an Arrow column of text", field="texts"
        ) from None


def _read_about(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        about = read_signed(data, str(path)) if is_signed(data) else json.loads(data)
        if about["format"] != _FORMAT:
            raise IncompatibleStore(f"{path}: format {about['format']} is not the {_FORMAT} this version reads")
        return {name: about[name] for name in ("documents", "words", "has_weight")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise unreadable_store(f"{path}: not a saved vocabulary ({error})", error) from error


class _VocabularyTable:
    """A table that is to become a vocabulary, checked column by column; `called` is its file, if it has one."""

    def __init__(self, called: str):
        self._called = called

    def read(self, table: pa.Table) -> Vocabulary:
        vocabulary = Vocabulary()
        vocabulary._documents = self._documents(table)
        vocabulary.table = self._words(table)
        vocabulary._df = self._df(table, vocabulary)
        if "weight" in table.column_names:
            vocabulary._weight = self._weight(table, vocabulary)
        return vocabulary

    def _wrong(self, reason: str, field: str | None = None) -> InvalidColumns:
        return InvalidColumns(f"{self._called}: {reason}", field=field)

    def of_file(self) -> pa.Table:
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self._called) as file:
                table = file.read(columns=["term", "df", "weight"])
                names = file.schema_arrow.names
        except FileNotFoundError as error:
            raise self._wrong("no such file; a vocabulary is a Parquet file with the columns term and df") from error
        except (pa.ArrowException, OSError) as error:
            raise self._wrong("not a Parquet file that can be read; expected the columns term and df") from error
        for name in ("term", "df"):
            if name not in names:
                raise self._wrong(f"no column {name!r}, only {', '.join(names) or 'none'}", name)
        return table

    def _documents(self, table: pa.Table) -> int:
        written = (table.schema.metadata or {}).get(_DOCUMENTS_KEY, b"").decode("utf-8", "replace")
        if not (written.isascii() and written.isdigit()):
            shown = f"is {written!r}" if written else "is missing"
            raise self._wrong(
                f"the file metadata {_DOCUMENTS_KEY.decode()!r} {shown}: set it to the number of documents"
            )
        return int(written)

    def _words(self, table: pa.Table) -> WordTable:
        column = table.column("term")
        if column.null_count:
            raise self._wrong("column 'term' has a null: drop that row", "term")
        words = WordTable()
        try:
            ids = words.ids_of_column(column, add=True)
        except InvalidColumns as error:
            raise self._wrong(f"column 'term': {error}", "term") from error
        repeated = np.flatnonzero(ids != np.arange(len(ids)))
        if len(repeated):
            raise self._wrong(f"term {words.word(ids[repeated[0]])!r} stands there twice: add the rows up", "term")
        return words

    def _df(self, table: pa.Table, vocabulary: Vocabulary) -> np.ndarray:
        column = table.column("df")
        if not pa.types.is_integer(column.type) or column.null_count:
            given = "has a null" if pa.types.is_integer(column.type) else f"is {column.type}"
            raise self._wrong(f"column 'df' {given}: expected a whole number in every row", "df")
        try:
            df = np.array(column.cast(pa.int64()), np.int64)
        except pa.ArrowInvalid as error:
            raise self._wrong("column 'df' has a number beyond int64", "df") from error
        for row in np.flatnonzero((df < 0) | (df > vocabulary.documents))[:1]:
            word = vocabulary.table.word(row)
            raise self._wrong(f"df of {word!r} is {df[row]}: expected 0 to {vocabulary.documents} documents", "df")
        return df

    def _weight(self, table: pa.Table, vocabulary: Vocabulary) -> np.ndarray | None:
        column = table.column("weight")
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise self._wrong(f"column 'weight' is {column.type}: expected numbers", "weight")
        weight = np.array(column.cast(pa.float64(), safe=False), np.float64)
        given = _arrow.array_of(column.is_valid())
        usable = (weight == 0) | ((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))
        for row in np.flatnonzero(given & ~usable)[:1]:
            wrong = f"weight of {vocabulary.table.word(row)!r} is {weight[row]}"
            raise self._wrong(f"{wrong}: expected 0, or a number from {LEAST_WEIGHT} to {MOST_WEIGHT}", "weight")
        return weight if given.any() else None
