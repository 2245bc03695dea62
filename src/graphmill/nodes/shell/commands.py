"""Commands that parse what they are given: where a value may stand among the words of one, and where not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from graphmill.nodes.shell.programs import (
    AWKS,
    CHANGING,
    EVALUATING,
    INTERPRETERS,
    NAMING,
    PARSING,
    RUNS_INPUT,
    SHELLS,
    WRAPPERS,
    Wrapper,
    is_ruling,
)
from graphmill.nodes.shell.word import EXPANDED, VALUE, RefusedError, Word

_FILLING = frozenset({"read", "getopts", "mapfile", "readarray", "printf"})
_FROM_INPUT = "takes its program from its input here"


class Reads(NamedTuple):
    """A command that takes its program from its standard input; or from ``written``, of which the shell makes something else before."""

    program: str
    what: str = _FROM_INPUT
    written: str = ""


class Runs(NamedTuple):
    """A command that runs a script which is written here."""

    script: str


class Fills(NamedTuple):
    """A command that sets variables to what it is given or reads."""

    names: Sequence[str]


Finding = Reads | Runs | Fills
Findings = tuple[Finding, ...]


def judge(words: Sequence[Word]) -> Findings:
    """Refuse words of a simple command that would be parsed; tell what it does that matters elsewhere in the script."""
    count = 0
    while count < len(words) and words[count].name is not None:
        _require_data(words[count])
        count += 1
    return *_settings(words[:count]), *_judge_command(words[count:])


def _judge_command(words: Sequence[Word]) -> Findings:
    if not words:
        return ()
    if words[0].has_value:
        raise RefusedError("it stands where a command is named: the value would choose what is run")
    name = _name_of(words)
    if EXPANDED in name or not (
        words[0].is_steady or ("/" in words[0].text and not any(letter in name for letter in "*?[{"))
    ):
        _refuse_any(words, "it is given to a command that is not known before it runs, and which may parse it")
        return Reads("a command that is not known"), Reads("a command", "is not known before it runs", words[0].written)
    rule = _rule_of(words) or _judge_unknown
    unsure = (
        ()
        if EXPANDED not in words[0].text
        else (Reads(name, "is in a folder that is not known before it runs", words[0].written),)
    )
    return *unsure, *rule(name, words)


def _rule_of(words: Sequence[Word]) -> _Rule | None:
    name = _name_of(words)
    return _RULES.get(name) or _RULES.get(name.rstrip("0123456789."))


def _judge_unknown(_name: str, words: Sequence[Word]) -> Findings:
    """Find a shell or the like that a command runs, such as by docker exec: told by an option that is followed by a program."""
    for at, word in enumerate(words[1:], 1):
        name = _name_of(words[at:])
        if _rule_of(words[at:]) is _judge_code and words[at + 1 :] and not word.has_value:
            following = words[at + 1]
            if following.is_option and _has_flag(following.text, _code_letters(name)):
                return _judge_code(name, words[at:])
    return ()


def _judge_changing(name: str, words: Sequence[Word]) -> Findings:
    del words
    raise RefusedError(f"{name} changes how the rest is read or computed; do without it")


def _judge_evaluating(name: str, words: Sequence[Word]) -> Findings:
    _refuse_any(words, f"it is given to {name}, which would parse it")
    if not all(word.is_literal and word.is_steady for word in words):
        raise RefusedError(f"{name} is given what is not known before it runs, and might hold a value")
    given = [word.text for word in words[1:] if word.text != "--"]
    return (Runs(" ".join(given) if name == "eval" else "".join(given[:1])),) if given else ()


def _judge_parsing(name: str, words: Sequence[Word]) -> Findings:
    _refuse_any(words, f"it is given to {name}, which would parse it")
    is_reader = name in RUNS_INPUT or any(_is_input(word) for word in words[1:])
    return (*((Reads(name),) if is_reader else ()), *_known(name, words), *_fills(name, words))


def _known(name: str, words: Sequence[Word]) -> Findings:
    written = " ".join([word.written for word in words if not word.is_literal])
    return (Reads(name, "is given what is not known before it runs", written),) if written else ()


def _fills(name: str, words: Sequence[Word]) -> Findings:
    """Tell which variables it may set; RefusedError if one decides what is run."""
    names = [word.text for word in words[1:] if not word.is_option] if name in _FILLING else []
    for each in names:
        if is_ruling(each):
            raise RefusedError(f"{name} sets {each}, which decides what is run or how words are read")
    return (Fills(names),) if names else ()


def _settings(words: Sequence[Word]) -> Findings:
    """Tell which variables that decide what is run are set to what is not known before."""
    unsure = [word for word in words if word.name is not None and is_ruling(word.name) and not word.is_literal]
    return tuple(
        [Reads(str(word.name), "decides what is run, and is not known before", word.written) for word in unsure]
    )


def _is_input(word: Word) -> bool:
    """Tell whether a file may be the standard input under another name."""
    return word.text == "-" or word.text.startswith(("/dev/stdin", "/dev/fd/", "/proc/"))


def _refuse_any(words: Sequence[Word], why: str) -> None:
    if any(word.has_value for word in words):
        raise RefusedError(why)


def _require_steady(name: str, words: Sequence[Word]) -> None:
    """Refuse words before the one that matters which may become several, or none."""
    if not all(word.is_steady for word in words):
        raise RefusedError(f"{name} is given what may become several words, or none; put it in double quotes")


def _require_data(word: Word) -> None:
    if word.has_value and is_ruling(word.name or ""):
        raise RefusedError(f"it would become {word.name}, which decides what is run or how words are read")


def _judge_naming(name: str, words: Sequence[Word]) -> Findings:
    if any(word.is_option and word.text not in ("-p", "--") for word in words[1:]):
        raise RefusedError(f"{name} is given an option, and with some of them values are computed; leave it out")
    for word in words[1:]:
        if word.has_value and (word.name is None or any(each.is_option for each in words[1:])):
            raise RefusedError(
                f"it is given to {name}, which would take it for a name; write {name} NAME=VALUE, without options"
            )
        _require_data(word)
    return *_settings(words[1:]), *_known(name, [word for word in words if word.name is None])


def _judge_wrapped(name: str, words: Sequence[Word]) -> Findings:
    """Find the command that another one runs, and judge that."""
    if name == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
        return ()
    inner = _wrapped(name, words)
    return *_settings(words[: len(words) - len(inner)]), *_judge_command(inner)


def _wrapped(name: str, words: Sequence[Word]) -> Sequence[Word]:
    """Give the words of the command that another one runs."""
    wrapper, at = WRAPPERS[name], 1
    while at < len(words) and words[at].is_option and words[at].text != "--":
        at += _option_length(name, wrapper, words[at])
    if at < len(words) and words[at].text == "--":
        at += 1
    at += wrapper.operands
    _require_steady(name, words[:at])
    while name in ("env", "sudo", "doas") and at < len(words) and words[at].name is not None:
        _require_data(words[at])
        at += 1
    return words[at:]


def _judge_xargs(name: str, words: Sequence[Word]) -> Findings:
    """Judge a command whose last words, or some within, come from the input: that must not name or be a program."""
    inner = _wrapped(name, words)
    puts_within = any(word.text.startswith(("-I", "-i", "-J")) for word in words[: len(words) - len(inner)])
    found = _judge_command(inner)
    while inner and _name_of(inner) in WRAPPERS:
        inner = _wrapped(_name_of(inner), inner)
        if not inner:
            return (Reads(name),)
    if inner and _is_program(inner) and (puts_within or _lacks_program(inner)):
        return (Reads(name),)
    return found


def _name_of(words: Sequence[Word]) -> str:
    return words[0].text.rpartition("/")[2]


def _is_program(words: Sequence[Word]) -> bool:
    return _rule_of(words) in (_judge_code, _judge_awk, _judge_sed, _judge_evaluating, _judge_parsing)


def _lacks_program(words: Sequence[Word]) -> bool:
    """Tell whether what is to come might be the program itself: nothing is left to be given before it."""
    return all(word.is_option for word in words[1:])


def _option_length(name: str, wrapper: Wrapper, option: Word) -> int:
    text = option.text
    if text.startswith("--") and "=" in text and not text.startswith("--s"):
        return 1
    letters = text[1:]
    for place, letter in enumerate(letters):
        if letter in wrapper.takes:
            return 1 if place + 1 < len(letters) else 2
        if letter not in wrapper.flags:
            if name == "nice" and letters.isdigit():
                return 1
            raise RefusedError(
                f"the option {text.replace(VALUE, '…')} of {name} is not known here, so what {name} runs is not known either"
            )
    return 1


def _code_letters(program: str) -> str:
    return INTERPRETERS.get(program.rstrip("0123456789."), "c")


def _judge_code(program: str, words: Sequence[Word]) -> Findings:
    """Judge a program that runs code: what stands up to its code must be written."""
    letters = _code_letters(program)
    flags = [at for at, word in enumerate(words) if at and word.is_option and _has_flag(word.text, letters)]
    start = flags[0] + 1 if flags else 1
    code = _operand(words, start)
    _refuse_any(
        words[: code + 1],
        f"it is given to {program}, which would parse it as its program or take that from where it says",
    )
    _require_steady(program, words[: code + 1])
    if flags and not all(word.is_literal for word in words[: code + 1]):
        raise RefusedError(
            f"the program of {program} is not known before it runs, and might hold a value; put it in single quotes"
        )
    is_from_input = not flags and (
        code >= len(words) or _is_input(words[code]) or any(word.text == "-s" for word in words[:code])
    )
    if is_from_input:
        return (Reads(program),)
    if not flags:
        return _known(program, words[: code + 1])
    return (Runs(words[code].text),) if program in SHELLS and code < len(words) else ()


def _has_flag(option: str, letters: str) -> bool:
    if option.startswith("--"):
        return option.partition("=")[0] in ("--eval", "--print", "--command", "--require", "--run")
    return any(letter in option for letter in letters)


def _operand(words: Sequence[Word], start: int) -> int:
    """Find the first word that is no option and no argument of ``-o``."""
    at = start
    while at < len(words) and words[at].is_option:
        at += 2 if words[at].text in ("-o", "+o", "-O", "+O") else 1
    return at


def _judge_sed(name: str, words: Sequence[Word]) -> Findings:
    """Let values be names of files only: GNU's sed runs commands."""
    by_option = [at for at, word in enumerate(words) if word.text.startswith(("-e", "-f", "--expression", "--file"))]
    programs = [at + 1 for at in by_option if words[at].text in ("-e", "-f", "--expression", "--file")] or [
        _operand(words, 1)
    ]
    _require_steady(name, words[: programs[0] + 1])
    parsed = [word for at, word in enumerate(words) if word.is_option or at in programs]
    _refuse_any(parsed, f"it stands in the program of {name}, which can run commands; use awk with ENVIRON")
    return _known(name, parsed)


def _judge_awk(name: str, words: Sequence[Word]) -> Findings:
    at = 1
    while at < len(words) and words[at].text[:2] in ("-v", "-F"):
        at += 1 if len(words[at].text) > 2 else 2
    is_option = at < len(words) and words[at].is_option
    _require_steady(name, words[: at + 1])
    _refuse_any(
        words[at : at + 2 if is_option else at + 1], f"it stands in the program of {name}; use {name} -v, or env"
    )
    is_from_input = is_option and any(_is_input(word) or _is_input(Word(word.text[2:])) for word in words[at : at + 2])
    return (Reads(name),) if is_from_input else ()


def _judge_test(name: str, words: Sequence[Word]) -> Findings:
    """Let values be compared where no value can be taken for an operator: some of these evaluate."""
    given = words[1:-1] if name == "[" else words[1:]
    if any(word.has_value for word in given):
        _require_steady(name, given)
    if len(given) > 1 and given[0].text == "!":
        given = given[1:]
    if not _is_one_comparison(given):
        _refuse_any(
            words,
            f"it is given to {name} with more than one comparison, where it could be taken for an operator; join tests by && and ||",
        )
    is_unsure = len(given) == 2 and not (
        given[0].is_literal and (given[1].is_literal or given[0].text not in ("-v", "-R"))
    )
    return _known(name, given) if is_unsure else ()


def _is_one_comparison(given: Sequence[Word]) -> bool:
    if len(given) == 2:
        return given[0].is_literal and given[0].is_option and given[0].text not in ("-v", "-R", "-o")
    if len(given) == 3:
        operator = given[1]
        return (
            operator.is_literal
            and (operator.is_option or operator.text in ("=", "==", "!="))
            and operator.text not in ("-a", "-o")
        )
    return len(given) < 2


def _judge_printf(name: str, words: Sequence[Word]) -> Findings:
    is_unclear = len(words) > 1 and (
        words[1].text[:1] in (VALUE, EXPANDED) or words[1].text.startswith("-v") or not words[1].is_steady
    )
    if is_unclear:
        _refuse_any(words, f"it is given to {name} in the place of the format; write {name} '%s' before it")
    if len(words) < 2 or not words[1].text.startswith(("-v", EXPANDED)):
        return ()
    return *_known(name, words[1:3]), *_fills(name, words[1:4])


def _judge_set(name: str, words: Sequence[Word]) -> Findings:
    before = next((at for at, word in enumerate(words) if word.text == "--"), len(words))
    _refuse_any(words[:before], f"it is given to {name}, which would take it for an option; write {name} -- before it")
    return ()


def _judge_find(_name: str, words: Sequence[Word]) -> Findings:
    findings: list[Finding] = []
    for at, word in enumerate(words):
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            inner = words[at + 1 :]
            findings += _judge_command(inner)
            if inner and _is_program(inner) and any("{}" in each.text and each.text != "{}" for each in inner):
                raise RefusedError(
                    "find puts the names of files into a program, where they would be parsed; give {} as a word of its own"
                )
    return tuple(findings)


_Rule = Callable[[str, Sequence[Word]], Findings]


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(PARSING, _judge_parsing),
    **dict.fromkeys(EVALUATING, _judge_evaluating),
    **dict.fromkeys(CHANGING, _judge_changing),
    **dict.fromkeys(NAMING, _judge_naming),
    **dict.fromkeys(WRAPPERS, _judge_wrapped),
    "xargs": _judge_xargs,
    **dict.fromkeys((*SHELLS, *INTERPRETERS), _judge_code),
    **dict.fromkeys(AWKS, _judge_awk),
    **dict.fromkeys(("sed", "gsed"), _judge_sed),
    "test": _judge_test,
    "[": _judge_test,
    "printf": _judge_printf,
    "set": _judge_set,
    "find": _judge_find,
}
