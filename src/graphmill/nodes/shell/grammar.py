"""The grammar: which words of a script are commands, which are their arguments, and where one ends."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache

from graphmill.nodes.shell.commands import Fills, Finding, Reads, judge
from graphmill.nodes.shell.lexer import HereDocument, Lexer, Place, names_in, takes_arguments
from graphmill.nodes.shell.programs import is_ruling
from graphmill.nodes.shell.word import EXPANDED, VALUE, RefusedError, Word

_GOES_ON = frozenset({"if", "then", "else", "elif", "do", "while", "until", "{", "!"})
_CLOSES = frozenset({"fi", "done", "}"})
_OF_SOME_SHELLS = frozenset({"[[", "function", "select", "coproc"})
_RESERVED = _GOES_ON | _CLOSES | _OF_SOME_SHELLS | {"case", "esac", "for", "in"}
_BETWEEN = ";&|"
_SUBSTITUTED = frozenset("(`")
_MOST_NESTED = 5


class _Frame(Enum):
    """What a token stands in."""

    SUBSHELL = auto()
    CASE_WORD = auto()
    CASE_IN = auto()
    CASE_PATTERN = auto()
    CASE_BODY = auto()
    FOR_NAME = auto()
    FOR_IN = auto()
    FOR_WORDS = auto()


_FOLLOWING = {(_Frame.CASE_IN, "in"): _Frame.CASE_PATTERN, (_Frame.FOR_IN, "in"): _Frame.FOR_WORDS}
_LAST_WORDS = frozenset({(_Frame.FOR_IN, "do"), (_Frame.CASE_PATTERN, "esac")})


@dataclass(slots=True)
class _Command:
    """A simple command as far as it has been read; ``began`` counts the templates before it."""

    began: int
    words: list[Word] = field(default_factory=list)
    has_redirection: bool = False


@lru_cache(maxsize=512)
def places_in(text: str) -> tuple[Place, ...]:
    """Say of each value in a script where it stands; RefusedError if the shell would parse one."""
    script = _Script(text)
    script.read()
    return tuple(script.lexer.places)


def require_uncomputed(text: str, names: Collection[str], *, has_arguments: bool) -> None:
    """Raise RefusedError if a script computes with variables of these names, or with its arguments; one that can not be read may."""
    script = _Script(text)
    script.lexer.assigned += [(name, VALUE) for name in names]
    with suppress(RefusedError):
        script.parse()
    script.require_uncomputed(has_arguments=has_arguments)


def _holds(text: str, filled: set[str]) -> bool:
    """Tell whether a value may stand in a text: in its place, by an argument, or by a variable."""
    return VALUE in text or takes_arguments(text) or not filled.isdisjoint(names_in(text))


class _Script:
    """Reads a script; each ``$(…)`` in it is read by the same rules."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.lexer = Lexer(text, lambda: _Commands(self, is_inner=True).read())
        self.readers: list[tuple[int, Reads]] = []
        self.runs_later = depth > 0
        self._depth = depth

    def read(self) -> None:
        """Read it to its end."""
        self.parse()
        filled = self._filled()
        for before, found in self.readers:
            is_input = not found.written and (before or self.runs_later or Place.HERE in self.lexer.places)
            if is_input or _holds(found.written, filled) or (before and _SUBSTITUTED & set(found.written)):
                raise RefusedError(f"{found.program} {found.what}, and a value stands in or before that")
        self.require_uncomputed(has_arguments=True)

    def require_uncomputed(self, *, has_arguments: bool) -> None:
        """Refuse arithmetic with what may hold a value."""
        filled = self._filled()
        for text in self.lexer.computed:
            if has_arguments and takes_arguments(text):
                raise RefusedError(
                    "$((…)) computes with $1, which may hold it; some shells run what stands there; use expr"
                )
            for name in sorted(filled & names_in(text)):
                raise RefusedError(
                    f"it becomes {name}, and $((…)) computes with that; some shells run what stands in it; use expr"
                )

    def judge(self, command: _Command) -> None:
        """Refuse a command that would parse a value; note the variables that one makes."""
        self.lexer.assigned += [(word.name, word.written) for word in command.words if word.name is not None]
        for found in judge(command.words):
            self._note(found, command.began)

    def parse(self) -> None:
        """Read its commands, and note what they do."""
        _Commands(self, is_inner=False).read()
        if self.lexer.pending:
            raise RefusedError(f"a here-document is not ended: no line is {self.lexer.pending[0].end!r}")

    def _note(self, found: Finding, began: int) -> None:
        if isinstance(found, Reads):
            self.readers.append((began, found))
        elif isinstance(found, Fills):
            self.lexer.assigned += [(name, VALUE) for name in found.names]
        else:
            self._read_inner(found.script)

    def _read_inner(self, text: str) -> None:
        """Read a script that is written within this one: it shares the variables, and runs when values may stand in them."""
        if self._depth == _MOST_NESTED:
            raise RefusedError("too many scripts stand in each other; put the inner ones into a file")
        inner = _Script(text, self._depth + 1)
        try:
            inner.parse()
        except RefusedError as error:
            raise RefusedError(f"in the script {text[:40]!r}: {error}") from None
        self.readers += [(1, found) for _, found in inner.readers]
        self.lexer.computed += inner.lexer.computed
        self.lexer.assigned += inner.lexer.assigned

    def _filled(self) -> set[str]:
        """Name the variables that may hold a value, one by way of another too."""
        found: set[str] = set()
        while more := {
            name for name, text in self.lexer.assigned if name not in found and _holds(text, found - {name})
        }:
            found |= more
        return found


class _Commands:
    """Reads commands up to the end of the script, or of the ``$(…)`` that they stand in."""

    def __init__(self, script: _Script, *, is_inner: bool) -> None:
        self._script = script
        self._lexer = script.lexer
        self._is_inner = is_inner
        self._frames: list[_Frame] = []
        self._command = _Command(len(self._lexer.places))
        self._for_name = ""
        self._readers = {
            "#": self._lexer.skip_comment,
            "\n": self._newline,
            "(": self._open,
            ")": self._close,
            **dict.fromkeys(_BETWEEN, self._operator),
            **dict.fromkeys("<>", self._redirection),
        }

    def read(self) -> None:
        """Read them."""
        while True:
            self._lexer.skip_blanks()
            letter = self._lexer.peek()
            if letter == ")" and self._is_inner and not self._frames:
                break
            if not letter:
                self._require_end()
                break
            self._readers.get(letter, self._word)()
        self._end_command()
        if self._is_inner:
            if self._lexer.pending:
                raise RefusedError("a here-document begins in $(…) and would end outside of it")
            self._lexer.at += 1

    def _require_end(self) -> None:
        if self._is_inner:
            raise RefusedError("$(…) is not closed")
        if self._frames:
            raise RefusedError("case, for or a parenthesis is not closed")

    @property
    def _frame(self) -> _Frame | None:
        return self._frames[-1] if self._frames else None

    @property
    def _is_command(self) -> bool:
        """Whether what comes is a command's, not a part of case or for."""
        return self._frame in (None, _Frame.SUBSHELL, _Frame.CASE_BODY)

    def _newline(self) -> None:
        self._lexer.at += 1
        if self._frame not in (_Frame.CASE_IN, _Frame.CASE_PATTERN, _Frame.FOR_IN):
            self._end_command()
        self._lexer.here_documents()

    def _operator(self) -> None:
        letter = self._lexer.peek()
        self._lexer.at += 1
        self._lexer.skip_continuation()
        following = self._lexer.peek()
        if self._frame is _Frame.CASE_PATTERN:
            _require_alternative(letter, following)
            return
        if self._frame is _Frame.FOR_IN and letter == ";":
            return
        if letter == "&" and following == ">":
            raise RefusedError("&> is read differently by different shells; write > FILE 2>&1")
        self._end_command()
        if letter == ";" and following and following in ";&":
            self._end_case_body()
        elif following == letter:
            self._lexer.at += 1

    def _end_case_body(self) -> None:
        if self._frame is not _Frame.CASE_BODY:
            raise RefusedError(";; stands outside of case")
        while self._lexer.peek() and self._lexer.peek() in ";&":
            self._lexer.at += 1
        self._frames[-1] = _Frame.CASE_PATTERN

    def _open(self) -> None:
        self._lexer.at += 1
        self._lexer.skip_continuation()
        if self._frame is _Frame.CASE_PATTERN:
            return
        words = self._command.words
        if not words and not self._command.has_redirection and self._is_command:
            if self._lexer.peek() == "(":
                raise RefusedError("(( is arithmetic for some shells; for a subshell in a subshell write a blank: ( (")
            self._frames.append(_Frame.SUBSHELL)
            return
        self._lexer.skip_blanks()
        is_function = (
            len(words) == 1 and words[0].is_plain and words[0].name is None and not self._command.has_redirection
        )
        if not is_function or self._lexer.peek() != ")":
            raise RefusedError("a parenthesis stands where sh knows none")
        self._lexer.at += 1
        self._script.runs_later = True
        self._command = _Command(len(self._lexer.places))

    def _close(self) -> None:
        self._lexer.at += 1
        if self._frame is _Frame.CASE_PATTERN:
            self._frames[-1] = _Frame.CASE_BODY
        elif self._frame is _Frame.SUBSHELL:
            self._end_command()
            self._frames.pop()
        else:
            raise RefusedError("a parenthesis is closed that was not opened")

    def _redirection(self) -> None:
        """Read an operator such as ``2>&`` behind its number, and its target."""
        if not self._is_command:
            raise RefusedError("a redirection stands inside case or for")
        self._command.has_redirection = True
        first = self._lexer.peek()
        self._lexer.at += 1
        self._lexer.skip_continuation()
        second = self._lexer.peek()
        if first == "<" and second == "<":
            self._lexer.at += 1
            self._begin_here_document()
            return
        if second == "(":
            raise RefusedError(f"{first}(…) is not known to every sh")
        if second and second in "<>&|":
            self._lexer.at += 1
        target = self._target()
        if second == "&" and target.has_value:
            raise RefusedError(f"it stands behind {first}&, where the shell reads a number")

    def _begin_here_document(self) -> None:
        self._lexer.skip_continuation()
        if self._lexer.peek() == "<":
            raise RefusedError("<<< is not known to every sh; use the param stdin, or a here-document")
        is_indented = self._lexer.peek() == "-"
        if is_indented:
            self._lexer.at += 1
        end = self._target()
        if not end.is_literal or "\n" in end.text or not end.text:
            raise RefusedError("the end of a here-document is no plain word")
        self._lexer.pending.append(HereDocument(end.text, not end.is_plain, is_indented))

    def _target(self) -> Word:
        self._lexer.skip_blanks()
        began = self._lexer.at
        word = self._lexer.word()
        if self._lexer.at == began:
            raise RefusedError("a redirection has no target")
        return word

    def _word(self) -> None:
        word = self._lexer.word()
        if self._lexer.peek() and self._lexer.peek() in "<>" and word.is_plain:
            if word.text.isascii() and word.text.isdigit():
                return
            if word.text.startswith("{"):
                raise RefusedError("{NAME}> is not known to every sh")
        if self._is_command:
            self._word_of_command(word)
        else:
            self._word_of_compound(word)

    def _word_of_command(self, word: Word) -> None:
        if word.is_plain and word.text in _RESERVED and not self._command.words:
            if self._command.has_redirection:
                raise RefusedError(f"{word.text} stands behind a redirection")
            self._reserved(word.text)
        elif word.is_plain and word.text in _RESERVED and all(each.name is not None for each in self._command.words):
            raise RefusedError(f"{word.text} stands behind an assignment")
        else:
            self._command.words.append(word)

    def _reserved(self, text: str) -> None:
        if text in _OF_SOME_SHELLS:
            raise RefusedError(f"{text} is not known to every sh")
        if text == "case":
            self._frames.append(_Frame.CASE_WORD)
        elif text == "for":
            self._frames.append(_Frame.FOR_NAME)
        elif text == "esac":
            if self._frame is not _Frame.CASE_BODY:
                raise RefusedError("esac stands outside of case")
            self._frames.pop()

    def _word_of_compound(self, word: Word) -> None:
        frame = self._frames[-1]
        said = (frame, word.text if word.is_plain else None)
        if said in _LAST_WORDS:
            self._frames.pop()
        elif said in _FOLLOWING:
            self._frames[-1] = _FOLLOWING[said]
        else:
            self._word_of_choice(frame, word)

    def _word_of_choice(self, frame: _Frame, word: Word) -> None:
        """Read a word of case or for that is the author's own."""
        if frame is _Frame.CASE_WORD:
            self._frames[-1] = _Frame.CASE_IN
        elif frame is _Frame.FOR_NAME and word.is_plain and not word.has_value:
            self._frames[-1] = _Frame.FOR_IN
            self._for_name = word.text
        elif frame is _Frame.FOR_WORDS:
            self._fill_for(word)
        elif frame is not _Frame.CASE_PATTERN:
            raise RefusedError(f"{frame.name.partition('_')[0].lower()} is not written as sh knows it")

    def _fill_for(self, word: Word) -> None:
        self._lexer.assigned.append((self._for_name, f"={word.written}"))
        if is_ruling(self._for_name) and (word.has_value or EXPANDED in word.text):
            raise RefusedError(f"for sets {self._for_name}, which decides what is run or how words are read")

    def _end_command(self) -> None:
        if self._frame is _Frame.FOR_WORDS:
            self._frames[-1] = _Frame.FOR_IN
        elif self._frame in (_Frame.CASE_WORD, _Frame.FOR_NAME):
            raise RefusedError("case or for is not written as sh knows it")
        self._script.judge(self._command)
        self._command = _Command(len(self._lexer.places))


def _require_alternative(letter: str, following: str) -> None:
    if letter != "|" or following == "|":
        raise RefusedError(f"{letter} stands in a pattern of case")
