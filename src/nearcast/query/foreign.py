"""Forms of other query languages: what means something there, and nothing or something else here, is refused.

A form is looked for outside of quotes and web addresses, chunk by chunk; there all of it is text.
"""

import re

_QUOTES = '"“”„'
#: A query without these holds no such form, which most can be told at once.
_SUSPECT = re.compile(r"[*?|&~^\[{+:/]")
_CHUNK = re.compile(rf"[()]|[{_QUOTES}][^{_QUOTES}]*[{_QUOTES}]?|[^\s(){_QUOTES}]+")
#: What each form looks like within a chunk, and what to write instead.
_FORMS = (
    (re.compile(r"\*"), '"*" stands for no other letters here, there are no wildcards: write the words, joined by OR'),
    (re.compile(r"(?<=\w)\?(?=\w)"), '"?" stands for no other letter here: write the words, joined by OR'),
    (re.compile(r"\|+"), '"{}" is no operator here: write OR, with spaces around it'),
    (re.compile(r"&&+"), '"{}" is no operator here: write AND, with spaces around it, or a space alone'),
    (re.compile(r"~[0-9.]*$"), '"{}" does not allow for other spellings or for words in between here: remove it'),
    (re.compile(r"\^[0-9.]+$"), '"{}" gives no weight here: remove it'),
    (re.compile(r"^\+(?=[^+])"), '"+" is not needed here: words are required anyway, remove it'),
    (re.compile(r"^/.+/$"), "there are no regular expressions here: write the words, joined by OR"),
    (
        re.compile(r"^[^\W\d][\w.]*:(?=\S)"),
        '"{}" names no field here, all words are looked for in the text: remove it, or quote what is meant as text',
    ),
)
_RANGE = re.compile(r"[\[{]\S+\s+TO\s+\S+[\]}]")
_FIELD_OF_GROUP = re.compile(rf"[^\W\d][\w.]*:(?=[({_QUOTES}])")


def foreign_form(query: str) -> tuple[int, str] | None:
    """Return where the first form of another language stands in a query, and what to write instead; None without."""
    if not _SUSPECT.search(query):
        return None
    for chunk in _CHUNK.finditer(query):
        text, begin = chunk[0], chunk.start()
        is_text = text[0] in f"(){_QUOTES}" or "://" in text
        if is_text or not any(letter.isalnum() for letter in text + _after(query, chunk)):
            continue
        if _RANGE.match(query, begin):
            return begin, "there are no ranges here: write the words, joined by OR"
        group = _FIELD_OF_GROUP.match(query, begin)
        if group is not None and group.end() == chunk.end():
            return begin, _FORMS[-1][1].format(group[0])
        for form, reason in _FORMS:
            found = form.search(text)
            if found is not None and not _is_name(text, found.start()):
                return begin + found.start(), reason.format(found[0])
    return None


def _after(query: str, chunk: re.Match[str]) -> str:
    """Return a letter where a chunk of signs stands directly behind quotes or parentheses and belongs to these."""
    return "x" if chunk.start() and query[chunk.start() - 1] in f"){_QUOTES}" and chunk[0][0] in "~^" else ""


def _is_name(text: str, at: int) -> bool:
    """Tell whether a sign belongs to a keycap, such as the emoji *️⃣."""
    return "\u20e3" in text[at + 1 : at + 3]
