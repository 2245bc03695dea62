"""Texts that break careless readers and writers, by name."""

from hypothesis import strategies as st

ODD_TEXTS = {
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "next line": "a\u0085b",
    "carriage return": "a\rb",
    "both line ends": "a\r\nb\n",
    "other line ends": "a\x0bb\x0cc\x1cd\x1de\x1ef",
    "nul": "a\x00b",
    "byte order mark": "\ufeffa\ufeff",
    "emoji": "👩‍👩‍👧 😀",
    "right to left": "שלום \u202e عربي",
    "combining": "e\u0301\u0323",
    "quotes": "\"a\",'b',\\",
    "looks escaped": "\\u2028 \\ud800 \\n",
    "looks like a template": "${a} $${b} %s {c}",
    "terminal escape": "\x1b[31mred\x07",
    "spaces": "  a\t ",
    "last of unicode": "\U0010ffff\uffff\ufffe",
}
LONE_SURROGATES = {"high surrogate": "a\ud800b", "low surrogate": "\udfff", "wrong order": "\udc00\ud800"}


def _paired(text):
    """JSON writes two halves side by side as the one character that they make."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


any_text = st.text(st.characters(codec="utf-8")) | st.sampled_from(sorted(ODD_TEXTS.values()))
json_text = any_text | st.text(st.characters()).map(_paired) | st.sampled_from(sorted(LONE_SURROGATES.values()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | json_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text, inner, max_size=4),
    max_leaves=8,
)
