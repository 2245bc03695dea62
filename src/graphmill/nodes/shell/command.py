"""Where a shell command may use the values of templates.

A value reaches the shell in an environment variable, and the script names that variable where the template stood: as
``"${NAME}"`` for a bare word, as ``${NAME}`` inside double quotes. A template anywhere else is refused, and so is a
command that dash and bash might read differently: if it is unsure where a template stands, the scanner gives up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

VARIABLE = "GRAPHMILL_VALUE_"
VALUE = "\0"  # marks a template; no command can contain it
_QUOTED, _SPLIT = "\1", "\2"  # mark expansions: one word, or any number of words

_EXPANSION = r"""\$(?: [A-Za-z_]\w* | [0-9@*\#?$!-]
    | \{ [\w@*\#?$!-] (?: [^'"`$\\{}\n\0] | \$\w )* \}
    | \(\( (?: [^'"`$\\{}()\#\n\0] | \$\w | \( (?: [^'"`$\\{}()\#\n\0] | \$\w )* \) )* \)\) )"""
_OUTSIDE_QUOTES = re.compile(
    rf"""(?P<blank> (?: [ \t]+ (?:\\\n)* )+ ) | (?P<newline> \n ) | (?P<separator> [;&|]+ | \(\) )
    | (?P<single> '[^']*' ) | (?P<quote> " ) | (?P<escaped> \\[^\n\0] )
    | (?P<expansion> {_EXPANSION} ) | (?P<open_nested> \$\((?!\() ) | (?P<open> \((?!\() ) | (?P<close> \) )
    | (?P<here_document> <<[<-]? ) | (?P<redirection> (?: <[>&]? | >[>&|]? )(?!\() )
    | (?P<value> \0 ) | (?P<text> [^ \t\n;&|'"\\$`()<>\0]+ | \$(?![\w@*\#?$!'"\[{{(\\`\0-]) )""",
    re.VERBOSE | re.ASCII,
)
_IN_QUOTES = re.compile(
    rf"""(?P<quote> " ) | (?P<escaped> \\[^\0] ) | (?P<expansion> {_EXPANSION} ) | (?P<open_nested> \$\((?!\() )
    | (?P<value> \0 ) | (?P<text> [^"\\$`\0]+ | \$(?![\w@*\#?$!\[{{(\\`\0-]) )""",
    re.VERBOSE | re.ASCII,
)
_UNREADABLE = {
    "`": "backticks are parsed twice; write $(…)",
    "'": "a single quote is not closed",
    "((": "(( is arithmetic in some shells; for a nested subshell, put a space between the parentheses",
    "<(": "<(…) is not known to every sh",
    ">(": ">(…) is not known to every sh",
    "$((": "this $((…)) is too complicated to read; for a subshell in $(…), put a space between the parentheses",
    "${": "this ${…} is too complicated to read, or contains the template",
    "$[": "$[…] is arithmetic in some shells; write \\$ for a dollar sign",
    "$'": "$'…' differs between shells; write plain quotes",
    '$"': '$"…" differs between shells; write plain quotes',
    "$\\": "a backslash follows a $; write \\$ for a dollar sign",
    f"${VALUE}": "there is a $ right before it; write \\$ for a dollar sign",
    f"\\{VALUE}": "there is a backslash right before it; for the shell's own ${NAME}, write $${NAME}",
    "\\\n": "a line is continued in the middle of a word; put a space before the backslash",
}

_UNSURE = "the text there differs between shells"

# Words that may come before a command's name.
_BEFORE_NAME = frozenset(
    {"if", "then", "elif", "else", "while", "until", "!", "time", "coproc", "function", "command", "builtin", "exec"}
)
# The shell's own commands that parse their arguments as code, arithmetic or variable names (measured with dash and
# bash).
_PARSING = frozenset(
    {"eval", "trap", "alias", "let", "declare", "typeset", "local", "read", "unset", "getopts"}
    | {"mapfile", "readarray", "compgen", "complete", "bind", "[["}
)
# Assigned to, these are computed or expanded by the shell, or decide what it runs.
_SPECIAL_VARIABLE = re.compile(
    r"(?:PATH|IFS|ENV|PS[0-4]|PROMPT_COMMAND|S?RANDOM|SECONDS|LINENO|HISTCMD|OPTIND|BASH\w*|SHELLOPTS|LD_\w+|DYLD_\w+)"
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
# -c among letters that a shell takes together with it, -e among those of Perl and Ruby.
_CODE_OPTION = re.compile(
    r"-[abefhiklmnoprstuvxBCDEHPTO]*c[abefhiklmnoprstuvxBCDEHPTO]*|-[ailnpsw0-9]*e|--(?:command|eval)"
)
_SHELL = re.compile(r"(?:.*/)?(?:r?ba|da|a|k|mk|pdk|z|c|tc|fi|ya)?sh", re.DOTALL)
_CODE_OPTION_OF_SHELL = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*")
_WITHOUT_EXPANSIONS = str.maketrans("", "", _QUOTED + _SPLIT)


class ShellValueError(ValueError):
    """A template stands where the shell might parse its value."""


@lru_cache(maxsize=512)
def script_of(texts: Sequence[str]) -> str:
    """Join a command's texts by references to variables; ShellValueError where a value would be unsafe."""
    if len(texts) == 1:
        return texts[0]
    scanner = _CommandScanner(VALUE.join(texts))
    scanner.scan()
    references = [form.format(variable(number)) for number, form in enumerate(scanner.forms)]
    return "".join([text + reference for text, reference in zip(texts, [*references, ""], strict=True)])


def with_arguments(script: str, count: int) -> str:
    """Let a script begin by taking its arguments from variables."""
    if not count:
        return script
    names = [argument(number) for number in range(count)]
    values = " ".join(f'"${{{name}}}"' for name in names)
    return f"set -- {values}; unset {' '.join(names)}; {script}"


def argument(number: int) -> str:
    """Name the variable of an argument, counted from 0."""
    return f"{VARIABLE}ARG_{number + 1}"


def variable(number: int) -> str:
    """Name the variable of a template's value, counted from 0."""
    return f"{VARIABLE}{number + 1}"


def is_variable_name(text: str) -> bool:
    """Whether a shell variable can have this name."""
    return _NAME.fullmatch(text) is not None


def is_special_variable(name: str) -> bool:
    """Whether the shell itself computes with this variable, expands it, or is ruled by it."""
    return _SPECIAL_VARIABLE.fullmatch(name) is not None


class _CommandScanner:
    """Reads a command once. ``forms`` are the references for its templates, in order."""

    def __init__(self, text: str) -> None:
        self.forms: list[str] = []
        self._text = text
        self._open: list[str] = []  # what is open: " for double quotes, $ for $(…), ( for a parenthesis in it
        self._word: str | None = None  # the current word without its quotes
        self._words: list[str] = []  # the current command's words, from its name on
        self._redirection = ""  # the operator whose target comes next
        self._has_here_document = False

    def scan(self) -> None:
        """Read to the end; ShellValueError where a value might be parsed."""
        at = 0
        while at < len(self._text):
            kind, token = self._token(at)
            at += len(token)
            if "$" in self._open:
                self._read_nested(kind, token)
            elif self._open:
                self._read_quoted(kind, token)
            else:
                self._read(kind, token)
            if self._has_here_document and "\n" in token:  # shells differ in what follows, so nothing more is read
                if VALUE in self._text[at:]:
                    raise ShellValueError("it is in a here-document or comes after one")
                return
        self._end_command()
        if self._open:
            raise ShellValueError("a double quote or $(…) is not closed")

    def _token(self, at: int) -> tuple[str, str]:
        is_quoted = self._open[-1:] == ['"']
        if self._text[at] == "#" and not is_quoted and (self._word is None or "$" in self._open):
            return "comment", self._text[at:].partition("\n")[0]
        found = (_IN_QUOTES if is_quoted else _OUTSIDE_QUOTES).match(self._text, at)
        if found is None or found.lastgroup is None:
            rest = self._text[at:]
            raise ShellValueError(next((why for start, why in _UNREADABLE.items() if rest.startswith(start)), _UNSURE))
        return found.lastgroup, found.group()

    def _read_nested(self, kind: str, token: str) -> None:
        """Find the end of a $(…), which may not contain a template."""
        if VALUE in token:
            raise ShellValueError("it is inside $(…)")
        if kind == "comment" or (kind == "text" and re.search(r"\bcase\b", token)):
            raise ShellValueError("a comment or `case` inside $(…) hides where that ends")
        if kind in ("open", "open_nested") or (kind == "quote" and self._open[-1] != '"'):
            self._open.append(token[0])
        elif kind in ("quote", "close"):
            self._open.pop()
        elif kind == "here_document":
            self._has_here_document = True

    def _read_quoted(self, kind: str, token: str) -> None:
        """Read a token in double quotes."""
        if kind == "quote":
            self._open.pop()
        elif kind == "value":
            self._add_value("${{{}}}")
        else:
            self._add_part(kind, token, _SPLIT if "@" in token else _QUOTED)

    def _read(self, kind: str, token: str) -> None:
        """Read a token outside of quotes."""
        if kind == "quote":
            self._add("")
            self._open.append('"')
        elif kind == "single":
            if VALUE in token:
                raise ShellValueError('it is in single quotes; use "…" or no quotes')
            self._add(token[1:-1])
        elif kind == "value":
            self._add_value('"${{{}}}"')
        elif kind in ("text", "escaped", "expansion", "open_nested"):
            self._add_part(kind, token, _SPLIT)
        else:
            self._read_operator(kind, token)

    def _read_operator(self, kind: str, token: str) -> None:
        if kind == "comment":
            self.forms.extend([""] * token.count(VALUE))
        elif kind in ("redirection", "here_document"):
            self._begin_redirection(token)
        elif kind == "blank":
            self._end_word()
        elif kind == "open" and self._word is not None:
            raise ShellValueError("a parenthesis follows a word; some shells read an array or a pattern there")
        else:
            self._end_command()

    def _add_part(self, kind: str, token: str, mark: str) -> None:
        """Add text, or the mark of an expansion, to the current word."""
        if kind == "open_nested":
            self._open.append("$")
        if kind in ("expansion", "open_nested"):
            self._add(mark)
        else:
            self._add(token.removeprefix("\\"))

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def _add_value(self, form: str) -> None:
        self._add(VALUE)
        self.forms.append(form)

    def _begin_redirection(self, operator: str) -> None:
        word = self._word
        if word is not None and VALUE not in word and (word.isdigit() or word.startswith("{")):
            self._word = None  # 2> or {name}>
        self._end_word()
        self._redirection = operator
        self._has_here_document = self._has_here_document or operator.startswith("<<")

    def _end_command(self) -> None:
        self._end_word()
        self._words = []
        self._redirection = ""

    def _end_word(self) -> None:
        word, self._word = self._word, None
        if word is None:
            return
        if self._redirection:
            if VALUE in word and self._redirection.startswith("<<"):
                raise ShellValueError("it is in a here-document")
            if VALUE in word and self._redirection.endswith("&"):  # dash expands such a value a second time
                raise ShellValueError(f"{self._redirection} takes a number; write > FILE 2>&1")
            self._redirection = ""
            return
        if VALUE in word:
            self._check_argument(word)
        if word in ("do", "{"):  # also behind `for NAME` and `function NAME`
            self._words = []
        elif self._words or not _may_precede_name(word):
            self._words.append(word)

    def _check_argument(self, word: str) -> None:
        """Refuse a value in a place where the shell parses words again."""
        words, assignment = self._words, _ASSIGNMENT.match(word)
        parsing = next((each for each in words if each in _PARSING), None)
        if assignment and is_special_variable(assignment[1]):
            raise ShellValueError(f"the shell gives {assignment[1]} a meaning of its own")
        if not words and not assignment:
            raise ShellValueError("it stands where a command's name does")
        if word.startswith("{"):
            raise ShellValueError("it is inside braces")
        if parsing is not None:
            raise ShellValueError(f"it follows {parsing}, which parses its arguments")
        if _may_be_code(words, word):
            raise ShellValueError("it follows an option such as -c or -e, whose argument is code for many programs")
        _check_for_test_printf(words, word)


def _check_for_test_printf(words: Sequence[str], word: str) -> None:
    """Refuse what bash's for, test and printf compute or take for an operator."""
    name, before, word = "".join(words[:1]), _literal("".join(words[-1:])), _literal(word)
    if name in ("for", "select") and any(map(is_special_variable, words[1:2])):
        raise ShellValueError(f"the shell gives {words[1]} a meaning of its own")
    if name in ("[", "test", "printf") and before == "-v":
        raise ShellValueError(f"{name} -v takes the name of a variable")
    if name == "printf" and word.startswith("-v") and _literal("".join(words[1:2]))[:1] in ("", "-"):
        raise ShellValueError(f"{name} -v takes the name of a variable")
    if name in ("[", "test") and before.startswith(VALUE):
        raise ShellValueError("one of two values side by side may be taken for an operator")
    if words == ["printf"] and word.startswith(VALUE):
        raise ShellValueError("it is the format of printf; write printf '%s' first")


def _may_precede_name(word: str) -> bool:
    if word in ("-v", "-V"):  # command -v NAME only looks a name up
        return False
    return word in _BEFORE_NAME or word.startswith("-") or _ASSIGNMENT.match(word) is not None


def _may_be_code(words: Sequence[str], word: str) -> bool:
    """Whether a word may be the argument of -c or -e, given the words before it."""
    if words[:1] in (["["], ["test"]):  # -e is a test for a file there, -ne a comparison
        return False
    awaited = 0
    is_shell = _literal("".join(words[:1])).rpartition("/")[2] == ""  # it may be one
    for each in words:
        is_shell = is_shell or _SHELL.fullmatch(each) is not None
        if _is_code_option(each, is_shell=is_shell):
            awaited = 1 + each.count("o") + each.count("O")  # -o takes a word too: bash -co pipefail CODE
        elif awaited and each.startswith(("-", "+")):
            awaited += 1  # it may take a word
        elif awaited and _SPLIT not in each:  # such a word may vanish
            awaited -= 1
    return awaited > 0 or _is_code_option(word.partition(VALUE)[0].rstrip("="), is_shell=is_shell)


def _is_code_option(word: str, *, is_shell: bool) -> bool:
    option = _literal(word)  # an expansion may vanish
    return any(each.fullmatch(option) for each in (_CODE_OPTION, _CODE_OPTION_OF_SHELL)[: 1 + is_shell])


def _literal(word: str) -> str:
    """Return a word without its expansions."""
    return word.translate(_WITHOUT_EXPANSIONS)
