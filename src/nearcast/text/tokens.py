"""What a token is: the rules behind `Analyzer.tokens`.

A word is a run of letters, digits, marks and `_`; an apostrophe between letters and a joiner (U+200C, U+200D) between
word characters stay inside; `#` or `@` directly before a word, and not behind another one, belongs to it; an emoji with
all that dresses it (skin tone, joined parts, flag, keycap) is one token. `c++`, `c#`, `f#` and `.net` are words, since
without their signs they would be other ones. Everything else separates. Letters are case-folded and in normal form KC,
so that full-width letters are letters; emoji and accents that stand alone are left as they are.
"""

import functools
import re
import threading
import unicodedata
from typing import Any

from nearcast.errors import InvalidInput, NotSupported

#: The version of these rules: what was stored under others holds other words.
RULES = 2


def _with_names(letter: str, word: str) -> str:
    """Return the pattern of a name with signs: `letter` cannot follow ++, `word` cannot follow # nor surround .net."""
    behind = rf"c\+\+(?!{letter}|\+)|[cf]#(?!{word}|#)"
    return rf"(?:{behind}|(?<!{word}|\.)\.net(?!{word}|'{letter}))|"


_ASCII_TOKEN = re.compile(
    _with_names("[a-z]", "[a-z0-9_]") + r"(?:(?<![a-z0-9_])[#@])?[a-z0-9_]+(?:(?<=[a-z])'(?=[a-z])[a-z0-9_]+)*"
)
#: The same for blocks without marks, joiners and emoji, where the standard library's `\w` is what we call a word.
_PLAIN_TOKEN = re.compile(_with_names(r"[^\W\d_]", r"\w") + r"(?:(?<!\w)[#@])?\w+(?:(?<=[^\W\d_])'(?=[^\W\d_])\w+)*")
_BEYOND_PLAIN = re.compile("[^\0-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u203a\u20a0-\u20bf]")
#: What is written in several ways and meant as one: typographic apostrophe, full-width signs; soft hyphens vanish.
_SAME = str.maketrans({"’": "'", "＃": "#", "＠": "@", "\u00ad": None})
_TO_TRANSLATE = re.compile("[’＃＠\u00ad]")
_VARIATION_SELECTORS = str.maketrans({"\ufe0e": None, "\ufe0f": None})
_ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_CODES = {name: code for code, name in _ALGORITHMS.items()} | {"nb": "no", "nn": "no"}
#: Stemmers keep state while they work, so each thread has its own.
_own = threading.local()


def unicode_tokens(text: str) -> list[str]:
    """Return the tokens of `text` in order, words split by the rules above only."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    text = _normalised(text)
    if not _BEYOND_PLAIN.search(text):
        return _PLAIN_TOKEN.findall(text)
    patterns = _patterns()
    if "\u20e3" in text:  # apart, or the word before would take the digit of a keycap
        text = patterns.keycap.sub(r" \g<0> ", text)
    found: list[str] = patterns.token.findall(text)
    if "\ufe0e" in text or "\ufe0f" in text:
        return [_without_selectors(token) for token in found]
    return found


def _without_selectors(token: str) -> str:
    """Return the token in its one spelling: a heart is a heart, however drawn; © is an emoji only by its selector."""
    bare = token.translate(_VARIATION_SELECTORS)
    return bare if _patterns().token.fullmatch(bare) else f"{bare[0]}\ufe0f{bare[1:]}"


def icu_tokens(text: str, language: str | None) -> list[str]:
    """Return the tokens of `text` in order, words of scripts written without spaces cut by ICU's dictionaries.

    Tags, names and emoji stay whole; other words are those of `unicode_tokens`.
    """
    found = unicode_tokens(text)
    if text.isascii():
        return found
    unspaced = _patterns().unspaced
    breaker = icu_word_breaker()
    tokens: list[str] = []
    for token in found:
        if token[0] in "#@" or not unspaced.search(token):
            tokens.append(token)
        else:
            tokens.extend(unicode_tokens(" ".join(breaker(token, language or "und"))))
    return tokens


def _normalised(text: str) -> str:
    """Return `text` case-folded, in normal form KC, and with one spelling for what is meant as one."""
    if _TO_TRANSLATE.search(text):
        text = text.translate(_SAME)
    if _BEYOND_PLAIN.search(text):
        # Sorting a long run of marks takes quadratic time; U+034F cuts it ("stream-safe text", UAX #15).
        text = _patterns().marks.sub("\\1\u034f", text)
    return _compatible(_compatible(text).casefold())


def _compatible(text: str) -> str:
    """Return `text` in normal form KC, but for emoji and accents that stand alone, which are in normal form C.

    Normal form KC of an accent alone begins with a space, and would put the accent on the word behind it.
    """
    if unicodedata.is_normalized("NFKC", text):
        return text
    text = _patterns().compatible.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    return unicodedata.normalize("NFC", text)


class _Patterns:
    """Patterns that need Unicode properties."""

    def __init__(self) -> None:
        import regex

        compiled = functools.partial(regex.compile, flags=regex.V1)
        # Variation selectors are marks, but they only choose how the sign before them is drawn.
        word = r"[[\p{L}\p{N}\p{M}_]--[\uFE0E\uFE0F]]"
        inside = r"(?:(?<=[\p{L}\p{M}])'(?=\p{L})|[\u200C\u200D])"
        keycap = r"[0-9#*]\uFE0F?\u20E3"
        # Signs such as © or ↔ are emoji only where U+FE0F asks for it. Case folding has made Ⓜ a ⓜ.
        sign = (
            r"(?:[[\p{Extended_Pictographic}\p{Emoji_Modifier}]&&[\u231A-\U0010FFFF]]"
            r"|[\p{Extended_Pictographic}\u24DC](?=\uFE0F))"
        )
        dress = r"[\uFE0E\uFE0F]?\p{Emoji_Modifier}?\uFE0F?(?:[\U000E0020-\U000E007E]+\U000E007F)?"
        emoji = rf"\p{{Regional_Indicator}}{{2}}|{sign}{dress}(?:\u200D\p{{Extended_Pictographic}}{dress})*"
        names = _with_names(r"[\p{L}\p{M}]", word)
        self.token = compiled(rf"{keycap}|{names}(?:(?<!{word})[#@])?{word}+(?:{inside}{word}+)*|{emoji}")
        self.keycap = compiled(keycap)
        mark = r"[\p{M}--[\u034F\uFE0E\uFE0F]]"
        self.marks = compiled(rf"({mark}{{30}})(?={mark})")
        alone = "".join(filter(_is_accent_alone, map(chr, range(0x80, 0x10000))))
        self.compatible = compiled(rf"[^\p{{Extended_Pictographic}}\u24DC{alone}]+")
        self.unspaced = compiled(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


def _is_accent_alone(letter: str) -> bool:
    """Tell whether normal form KC makes a space and marks of a character."""
    plain = unicodedata.normalize("NFKC", letter)
    return len(plain) > 1 and plain[0] == " "


@functools.cache
def _patterns() -> _Patterns:
    return _Patterns()


@functools.cache
def icu_word_breaker() -> Any:
    """Return ICU's word breaker; NotSupported says what to install when it is missing."""
    try:
        from icu4py.breakers import WordBreaker
    except ImportError as error:
        raise NotSupported("segmenter='icu' needs ICU, which is not installed: pip install 'nearcast[icu]'") from error
    return WordBreaker


def language_code(language: str) -> str:
    """Return the two-letter code of a language given by code ("en", "en-GB") or English name."""
    folded = language.strip().casefold()
    short = re.split("[-_]", folded)[0]
    return _CODES.get(folded) or _CODES.get(short) or short


def stem_algorithm(language: str) -> str:
    """Return Snowball's name of the language; InvalidInput if it has no stemmer for it."""
    if language not in _ALGORITHMS:
        known = ", ".join(_ALGORITHMS)
        raise InvalidInput(f"language {language!r} has no stemmer; use one of {known}, or stem=False", field="language")
    return _ALGORITHMS[language]


@functools.lru_cache(maxsize=1 << 16)
def stemmed(word: str, language: str) -> str:
    """Return the stem of a word; a tag, name, number or emoji as it is."""
    if not word[0].isalpha() or word[-1] in "+#":
        return word
    stemmers: dict[str, Any] = _own.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        import snowballstemmer

        stemmers[language] = snowballstemmer.stemmer(stem_algorithm(language))
    stem: str = stemmers[language].stemWord(word)
    return unicodedata.normalize("NFC", stem) or word
