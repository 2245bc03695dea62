"""Hostile values: texts that break what takes data for syntax, each with a name; each carries the marker where it could be run.

``MARKER`` is a file that some of them would make, in the current folder, were they ever parsed by a shell: no test may find it.
"""

from __future__ import annotations

MARKER = "hostile-marker"
_RUN = f"touch {MARKER}"

QUOTES = {
    "empty": "",
    "space": " ",
    "only spaces": "     ",
    "outer spaces": "  a  b  ",
    "words": "two words and  two spaces",
    "single quote": "'",
    "double quote": '"',
    "both quotes": "'\"'\"'",
    "quoted quote": 'it\'s "so" `so`',
    "closes single": f"'; {_RUN}; '",
    "closes double": f'"; {_RUN}; "',
    "closes both": f"'\"; {_RUN}; \"'",
    "backslash": "\\",
    "trailing backslash": "a\\",
    "backslash newline": "a\\\nb",
    "backslashes": "\\\\ \\n \\' \\\" \\$ \\`",
    "ansi quote": "$'\\x41'",
    "locale quote": '$"hello"',
}
SUBSTITUTIONS = {
    "dollar": "$",
    "variable": "$HOME ${HOME} $1 $@ $$ $?",
    "command substitution": f"$({_RUN})",
    "backticks": f"`{_RUN}`",
    "nested substitution": f"$(echo $({_RUN}))",
    "arithmetic": "$((1+1)) $[1+1]",
    "arithmetic with substitution": f"a[$({_RUN})]",
    "default with substitution": f"${{x:-$({_RUN})}}",
    "process substitution": f"<({_RUN}) >({_RUN})",
    "function definition": f"() {{ :; }}; {_RUN}",
    "quoted substitution": f'"$({_RUN})"',
}
METACHARACTERS = {
    "semicolon": f"; {_RUN}",
    "and": f"&& {_RUN}",
    "or": f"|| {_RUN}",
    "pipe": f"| {_RUN}",
    "background": f"& {_RUN} &",
    "redirection": f"> {MARKER}",
    "here document": f"<<EOF\n$({_RUN})\nEOF",
    "here document end": f"\nEOF\n{_RUN}\n",
    "comment": "# not a comment",
    "glob": "*",
    "globs": "* ? [a-z] ~ ~root {a,b}",
    "tilde": "~",
    "braces": "{1..3}",
    "parentheses": f"({_RUN})",
    "closing parenthesis": f") ; {_RUN} ; (",
    "closing brace": f"}} ; {_RUN} ; {{",
    "case end": f";; *) {_RUN} ;; esac",
    "assignment": f"PATH=. {MARKER}",
    "history": "!! !1 !$",
    "keyword": "if then else fi do done",
    "equals": "a=b",
}
OPTIONS = {
    "dash": "-",
    "two dashes": "--",
    "option": "-rf",
    "long option": "--help",
    "option with value": f"-exec={_RUN}",
    "option e": "-e",
    "option n": "-n",
    "path upward": "../../../../etc/passwd",
    "absolute path": "/etc/passwd",
    "url": f"http://127.0.0.1/?a=b&c=d;{_RUN}",
}
LINES = {
    "newline": "\n",
    "newlines": "\n\n\n",
    "trailing newline": "line\n",
    "leading newline": "\nline",
    "lines": f"one\n{_RUN}\nthree",
    "carriage return": f"one\r{_RUN}\rthree",
    "windows lines": "one\r\ntwo\r\n",
    "tab": "\tone\ttwo\t",
    "vertical": "\v\f",
    "line separator": "one\u2028two\u2029three\u0085four",
}
UNICODE = {
    "letters": "naïve Ærøskøbing 東京 Москва",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈",
    "direction marks": "\u202eexe.txt\u202c \u200f\u200e \u2066x\u2069",
    "zero width": "a\u200bb\u200cc\u200dd\ufeffe",
    "byte order mark": "\ufefftext",
    "combining": "e\u0301 \u1e9b\u0323",
    "full width": "＄（touch　x）；＇＂",
    "non-breaking space": "a\u00a0b\u3000c",
    "outside the basic plane": "\U0001d54f\U0010ffff",
    "replacement": "\ufffd \ufffe \uffff",
    "quotes of print": "‘x’ “x” «x» ′ ″ ‵",
}
CONTROLS = {
    "bell and escape": "\a\b\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "control characters": "".join(map(chr, range(1, 32))),
    "delete": "\x7f\x80\x9f",
    "terminal reset": "\x1bc\x1b[2J",
    "separators of fields": "a\x1cb\x1dc\x1ed\x1ff",
    "dash's own marks": "".join(map(chr, range(0x81, 0x89))),
}
TEMPLATES = {
    "template": "${item} ${HOME} ${fetch.response}",
    "escaped template": "$${item}",
    "nested template": "${a[${b}]}",
    "half a template": "${",
    "template with default": '${x ?? "y"}',
    "jinja": "{{ 7*7 }} {% raw %}",
    "format": "{0} {item!r} %s %(item)s %n",
    "json": '{"a": [1, null, "\\"", "\\u0000"]}',
    "yaml": "!!python/object/apply:os.system [touch x]",
    "markup": "<script>alert(1)</script> &amp; ]]>",
    "formula": "=cmd|' /C calc'!A0",
    "sql": "'; DROP TABLE items; --",
    "number": "00012",
    "word null": "null",
    "variable name": "GRAPHMILL_1",
}
LARGE = {
    "large": "0123456789abcde\n" * (100_000 // 16),
    "large of quotes": "'\"$`\\\n" * (100_000 // 6),
}

VALUES: dict[str, str] = {
    **QUOTES,
    **SUBSTITUTIONS,
    **METACHARACTERS,
    **OPTIONS,
    **LINES,
    **UNICODE,
    **CONTROLS,
    **TEMPLATES,
    **LARGE,
}
"""Every text that a process can be given: as an argument, by its environment, or on its standard input."""

UNSENDABLE: dict[str, str] = {
    "nul": "a\0b",
    "only nul": "\0",
    "nul and more": f"x\0; {_RUN}",
    "200 KB": "0123456789" * 20_000,
    "lone surrogate": "a\ud800b",
    "escaped byte": "a\udcffb",
}
"""Texts that no argument and no variable can hold: NUL, 200 KB, and what is no Unicode text. Standard input takes those that are UTF-8."""
