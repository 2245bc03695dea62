"""What an exception says, in one text that is never empty, whatever it does when it is asked."""

from __future__ import annotations

MOST_MESSAGE_CHARS = 2000


def message_of(error: BaseException) -> str:
    """Give an exception's message; the name of its type if it has none."""
    name = type(error).__name__
    try:
        said = "".join(str(error))
        text = said if said.strip() else name
        if notes := getattr(error, "__notes__", None):
            text = f"{text} ({'; '.join(map(str, notes))})"
    except BaseException:  # noqa: BLE001  a message is user code too
        return f"{name} (its message could not be rendered)"
    return cut(text, MOST_MESSAGE_CHARS)


def cut(text: str, most: int) -> str:
    """Give a text of at most so many characters; where some are left out, ``…`` says so."""
    return text if len(text) <= most else text[: most - 1] + "…"


def described(error: BaseException) -> str:
    """Give an exception's type and message, the type once."""
    name, message = type(error).__name__, message_of(error)
    return message if message.startswith(name) else f"{name}: {message}"
