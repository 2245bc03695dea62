"""Programs that parse what they are given, and those that run others: what is known of them by name."""

from __future__ import annotations

from typing import NamedTuple

_RULING_NAMES = frozenset(
    {
        "PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "PS1",
        "PS2",
        "PS4",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "BASHOPTS",
        "OPTIND",
        "CDPATH",
        "FPATH",
    }
    | {
        "RANDOM",
        "SECONDS",
        "LINENO",
        "HISTCMD",
        "BASH_COMPAT",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "PERL5OPT",
        "RUBYOPT",
        "NODE_OPTIONS",
    }
)
_RULING_PREFIXES = ("LD_", "DYLD_", "BASH_FUNC")

SHELLS = frozenset(
    {"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "pdksh", "yash", "zsh", "fish", "csh", "tcsh", "rbash"}
)
INTERPRETERS = {
    "python": "cm",
    "pypy": "cm",
    "perl": "eEmM",
    "ruby": "er",
    "node": "epr",
    "nodejs": "epr",
    "php": "rBRE",
    "lua": "el",
}
PARSING = frozenset(
    {".", "source", "unalias", "read", "unset", "getopts", "mapfile", "readarray", "hash"}
    | {"bind", "complete", "compgen", "enable", "fc", "ssh", "su", "runuser"}
    | {"watch", "parallel", "script", "at", "batch", "crontab", "flock"}
)
RUNS_INPUT = frozenset({"parallel", "at", "batch", "crontab", "ssh", "su", "runuser", "script"})
EVALUATING = frozenset({"eval", "trap"})
CHANGING = frozenset({"alias", "let", "declare", "typeset"})
NAMING = frozenset({"export", "readonly", "local"})
AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})


class Wrapper(NamedTuple):
    """How a command that runs another is written: options with an argument, those without, and words before the other command."""

    takes: str = ""
    flags: str = ""
    operands: int = 0


WRAPPERS = {
    "command": Wrapper(flags="p"),
    "exec": Wrapper(takes="a", flags="cl"),
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "nohup": Wrapper(),
    "env": Wrapper(takes="uC", flags="i0v"),
    "time": Wrapper(takes="fo", flags="pva"),
    "nice": Wrapper(takes="n"),
    "ionice": Wrapper(takes="cn", flags="t"),
    "timeout": Wrapper(takes="ks", flags="vfp", operands=1),
    "gtimeout": Wrapper(takes="ks", flags="vfp", operands=1),
    "stdbuf": Wrapper(takes="ioe"),
    "setsid": Wrapper(flags="cfw"),
    "chroot": Wrapper(operands=1),
    "sudo": Wrapper(takes="ugpCDRTh", flags="nEHSkb"),
    "doas": Wrapper(takes="uC", flags="n"),
    "xargs": Wrapper(takes="nPILdasE", flags="0rtpx"),
}


def is_ruling(name: str) -> bool:
    """Tell whether a variable decides what is run, or how words are read."""
    return name in _RULING_NAMES or name.startswith(_RULING_PREFIXES)
