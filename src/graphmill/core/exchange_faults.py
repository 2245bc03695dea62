"""What has gone wrong with an exchange, in our words: the errors of aiohttp's that mean the same for whoever asks."""

from __future__ import annotations

import os

from graphmill.core.errors import described


def unconnected(error: Exception) -> str | None:
    """Say why there was no connection, so that nothing was sent; None if there was one."""
    import aiohttp  # noqa: PLC0415

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate is not trusted: {_cause(error.certificate_error)}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host is not found: {_cause(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"can not connect: {_refusal(error.os_error)} ({error.host}:{error.port})"
    return None


def broken_off(error: Exception) -> str | None:
    """Say that an answer is not whole; None if that is not what went wrong."""
    import aiohttp  # noqa: PLC0415

    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer was cut"
    is_closed = isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError)
    return "the connection was closed before the answer was there" if is_closed else None


def _refusal(error: OSError) -> str:
    """Say why without the place, which asyncio gives instead of the reason."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else _cause(error)


def _cause(error: BaseException) -> str:
    return getattr(error, "strerror", None) or described(error)
