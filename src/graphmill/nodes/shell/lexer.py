"""The lexer: reads a shell command as the shell will, and says of each template in it what place it has.

It knows what dash and bash agree on. What they read differently, what it does not understand, and every place where a value would be
parsed is refused: a command that passes holds values as data only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from graphmill.nodes.shell.programs import is_ruling
from graphmill.nodes.shell.word import EXPANDED, VALUE, RefusedError, Word

_BLANKS = " \t"
_ENDS_WORD = " \t\n;&|()<>"
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME = _NAME_START | frozenset("0123456789")
_SPECIAL = frozenset("0123456789@*#?-$!")
_FORMS = (
    "}",
    "-",
    "=",
    "?",
    "+",
    "%",
    "#",
    ":-",
    ":=",
    ":?",
    ":+",
)  # what may follow a name in ${…}, as every sh knows it


class Place(Enum):
    """Where a template stands."""

    BARE = "bare"
    DOUBLE = "in double quotes"
    SINGLE = "in single quotes"
    HERE = "in a here-document"
    COMMENT = "in a comment"


class HereDocument(NamedTuple):
    """A here-document whose lines are still to come."""

    end: str
    is_quoted: bool
    is_indented: bool


class Lexer:
    """Reads words, quotes, expansions and here-documents; ``substitution`` reads the commands inside ``$(…)``, up to its end.

    ``places`` are those of the templates so far, ``computed`` what stands in ``$((…))``, ``assigned`` what becomes which variable, and
    ``pending`` here-documents that are to come.
    """

    def __init__(self, text: str, substitution: Callable[[], None]) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.places: list[Place] = []
        self.computed: list[str] = []
        self.assigned: list[tuple[str, str]] = []
        self.pending: list[HereDocument] = []
        self._substitution = substitution

    def peek(self, ahead: int = 0) -> str:
        """Give a character that is still to come, "" behind the last."""
        at = self.at + ahead
        return self.text[at] if at < self.end else ""

    def skip_continuation(self) -> None:
        """Skip newlines that a backslash takes away."""
        while self.peek() == "\\" and self.peek(1) == "\n":
            self.at += 2

    def skip_blanks(self) -> None:
        """Go to where the next token begins."""
        while self.peek() and (self.peek() in _BLANKS or (self.peek() == "\\" and self.peek(1) == "\n")):
            self.at += 1 if self.peek() != "\\" else 2

    def skip_comment(self) -> None:
        """Go to the end of the line."""
        while self.peek() not in ("", "\n"):
            if self.peek() == VALUE:
                self.places.append(Place.COMMENT)
            self.at += 1

    def word(self) -> Word:
        """Read a word; an empty one where none begins."""
        said: list[str] = []
        is_plain, is_steady, name = True, True, None
        start = self.at
        while (letter := self.peek()) and letter not in _ENDS_WORD:
            if letter == "=" and is_plain and name is None and is_name("".join(said)):
                name = "".join(said)
            if letter == "\\" and self.peek(1) == "\n":
                self.at += 2
                continue
            began = self.at
            part = self._part(letter)
            is_plain = is_plain and part == letter and part != VALUE
            is_steady = is_steady and not _may_be_several(letter, self.text[began : self.at + 1])
            said.append(part)
        text = "".join(said)
        return Word(text, is_plain, is_steady or text in ("[", "]", "{}"), name, self.text[start : self.at])

    def here_documents(self) -> None:
        """Read the lines of the here-documents that are due, after a newline."""
        due, self.pending = self.pending, []
        for document in due:
            self._here_document(document)

    def _part(self, letter: str) -> str:
        """Read one part of a word outside of quotes."""
        if letter == "\\":
            return self._escaped()
        if letter == "'":
            return self._single()
        if letter == '"':
            return self._double()
        if letter in "$`":
            return self._expansion(in_quotes=False)
        return self._letter(letter, Place.BARE)

    def _letter(self, letter: str, place: Place) -> str:
        if letter == VALUE:
            self.places.append(place)
        self.at += 1
        return letter

    def _escaped(self) -> str:
        following = self.peek(1)
        _require_no_value(following, "a backslash stands before it; for the shell's own ${NAME} write $${NAME}")
        self.at += 2 if following else 1
        return following or "\\"

    def _single(self) -> str:
        close = self.text.find("'", self.at + 1, self.end)
        if close < 0:
            raise RefusedError("a single quote is not closed")
        inside = self.text[self.at + 1 : close]
        self.places.extend([Place.SINGLE] * inside.count(VALUE))
        self.at = close + 1
        return inside

    def _double(self) -> str:
        self.at += 1
        said: list[str] = []
        while (letter := self.peek()) != '"':
            if not letter:
                raise RefusedError("a double quote is not closed")
            said.append(self._quoted(letter, Place.DOUBLE))
        self.at += 1
        return "".join(said)

    def _quoted(self, letter: str, place: Place) -> str:
        """Read one part of what stands in double quotes or in a here-document."""
        if letter == "\\":
            return self._escaped_in_quotes()
        if letter in "$`":
            return self._expansion(in_quotes=True)
        return self._letter(letter, place)

    def _escaped_in_quotes(self) -> str:
        following = self.peek(1)
        _require_no_value(following, "a backslash stands before it; for the shell's own ${NAME} write $${NAME}")
        if following and following in '$`"\\\n':
            self.at += 2
            return "" if following == "\n" else following
        self.at += 1
        return "\\"

    def _expansion(self, *, in_quotes: bool) -> str:
        if self.peek() == "`":
            self._backticks()
            return EXPANDED
        following = self.peek(1)
        _require_no_value(following, "a $ stands right before it; write \\$ for a dollar sign")
        if following == "(":
            self._parenthesis()
        elif following == "{":
            self._braces(in_quotes=in_quotes)
        elif following in _NAME_START and following:
            self.at += 1
            while self.peek() and self.peek() in _NAME:
                self.at += 1
        elif following in _SPECIAL and following:
            self.at += 2
        else:
            return self._dollar(following, in_quotes=in_quotes)
        return EXPANDED

    def _dollar(self, following: str, *, in_quotes: bool) -> str:
        """Take a dollar sign that begins nothing, if all shells agree that it does not."""
        if following == "[":
            raise RefusedError("$[…] is arithmetic for some shells; write \\$ for a dollar sign")
        if following == "'" and not in_quotes:
            raise RefusedError("$'…' is read differently by different shells; write the text in plain quotes")
        if following == "\\" and self.peek(2) == "\n":
            raise RefusedError("a line ends right after a $")
        self.at += 1
        return EXPANDED

    def _parenthesis(self) -> None:
        self.at += 2
        self.skip_continuation()
        if self.peek() == "(":
            self._without_values("in arithmetic, $((…)), which the shell would compute", self._arithmetic)
            return
        outer, self.pending = self.pending, []
        began = self.at
        self._substitution()
        if outer and "\n" in self.text[began : self.at]:
            raise RefusedError(
                "$(…) of several lines stands between << and its here-document; shells do not agree where that begins"
            )
        self.pending = outer

    def _arithmetic(self) -> None:
        self.at += 1
        began = self.at
        depth = 0
        while (letter := self.peek()) != ")" or depth:
            if letter in ("", "'", '"', "#"):
                raise RefusedError(
                    "$((…)) is not closed, or holds quotes; for a subshell in $(…) write a blank: $( (…) )"
                )
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if letter == "\\":
                self._escaped()
            elif letter in ("$", "`"):
                self._expansion(in_quotes=True)
            else:
                self._letter(letter, Place.BARE)
        self.computed.append(self.text[began : self.at])
        if self.peek(1) != ")":
            raise RefusedError(
                "$((…) is read as arithmetic by some shells; for a subshell in $(…) write a blank: $( (…) )"
            )
        self.at += 2

    def _braces(self, *, in_quotes: bool) -> None:
        self.at += 2
        if self.peek() in (*_BLANKS, "\n", "|", "("):
            raise RefusedError("${ …} is a command for some shells")
        began = self.at
        self._without_values("inside ${…} of the shell", lambda: self._until_brace(in_quotes=in_quotes))
        self._require_known_form(self.text[began : self.at])

    def _require_known_form(self, inside: str) -> None:
        """Refuse what only some shells know: they compute in it, or take the value of one variable for the name of another."""
        inside = inside[1:] if inside[0] == "#" and inside != "#}" else inside
        name = inside[: next(at for at, letter in enumerate(inside) if letter not in _NAME)] or inside[:1]
        form = inside[len(name) :]
        if (name[0] not in _NAME and name not in _SPECIAL) or not form.startswith(_FORMS):
            raise RefusedError(
                f"${{{inside[:40]} is not known to every sh, and some run what stands in a variable there"
            )
        if form.startswith(("=", ":=")):
            self.assigned.append((name, form))
            if is_ruling(name):
                raise RefusedError(
                    f"${{{name}{form[:2]}…}} sets what decides what is run or how words are read; write {name}=… for that"
                )

    def _until_brace(self, *, in_quotes: bool) -> None:
        while (letter := self.peek()) != "}":
            if not letter:
                raise RefusedError("${…} of the shell is not closed")
            if letter in "'\"" and in_quotes:
                raise RefusedError("quotes stand inside ${…} inside quotes, which shells read differently")
            self._part(letter)
        self.at += 1

    def _without_values(self, where: str, read: Callable[[], None]) -> None:
        before = len(self.places)
        read()
        if len(self.places) > before:
            raise RefusedError(f"it stands {where}")

    def _backticks(self) -> None:
        self.at += 1
        while (letter := self.peek()) != "`":
            if not letter:
                raise RefusedError("a backtick is not closed")
            _require_no_value(letter, "it stands in backticks, which the shell reads twice; write $(…) instead")
            self.at += 1
            if letter == "\\":
                _require_no_value(
                    self.peek(), "it stands in backticks, which the shell reads twice; write $(…) instead"
                )
                self.at += 1
        self.at += 1

    def _here_document(self, document: HereDocument) -> None:
        close, after = self._closing_line(document)
        inside = self.text[self.at : close]
        if document.is_quoted and VALUE in inside:
            raise RefusedError(
                f"it stands in a here-document whose end {document.end!r} is quoted: nothing is put in there"
            )
        if not document.is_quoted:
            self._expanded(close)
        self.at = min(after, self.end)

    def _expanded(self, close: int) -> None:
        """Read the lines of a here-document, which end at ``close`` whatever stands open in them."""
        end, self.end = self.end, close
        while letter := self.peek():
            self._quoted(letter, Place.HERE)
        self.end = end

    def _closing_line(self, document: HereDocument) -> tuple[int, int]:
        """Find where the lines end, and where what follows them begins."""
        at, before = self.at, None
        while True:
            newline = self.text.find("\n", at, self.end)
            stop = self.end if newline < 0 else newline
            line = self.text[at:stop]
            bare = line.lstrip("\t") if document.is_indented else line
            if before is not None and document.end in (
                bare,
                line,
                before + line,
                before + bare,
                (before + line).lstrip("\t"),
            ):
                raise RefusedError("a line of a here-document that ends in a backslash is followed by its end")
            if bare == document.end:
                return at, stop + 1
            if newline < 0:
                raise RefusedError(f"a here-document is not ended: no line is {document.end!r}")
            at, before = stop + 1, _continued((before or "") + line, document)


def _continued(line: str, document: HereDocument) -> str | None:
    """Give what of a line goes on in the next one; None if it ends here."""
    is_continued = not document.is_quoted and (len(line) - len(line.rstrip("\\"))) % 2 == 1
    return line[:-1] if is_continued else None


def _may_be_several(letter: str, written: str) -> bool:
    """Tell whether a part of a word, given with the letter behind it, may become several words, or none."""
    if letter == '"':
        return "$@" in written or ("${" in written and "@" in written)
    return letter in "$`*?[{" and written != "{}"


def _require_no_value(letter: str, why: str) -> None:
    if letter == VALUE:
        raise RefusedError(why)


def is_name(text: str) -> bool:
    """Tell whether a shell variable can have this name."""
    return text[:1] in _NAME_START and text != "" and all(letter in _NAME for letter in text)


def takes_arguments(text: str) -> bool:
    """Tell whether $1, $@ or $* stand in a text."""
    bare = text.replace("{", "")
    return any(letter == "$" and bare[at + 1 : at + 2] in tuple("123456789@*") for at, letter in enumerate(bare))


def names_in(text: str) -> set[str]:
    """Give every name of a variable that stands in a text."""
    return set("".join([letter if letter in _NAME else " " for letter in text]).split())
