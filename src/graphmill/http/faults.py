"""What can go wrong with an HTTP request, in our own exceptions and words."""

from __future__ import annotations

import os

from graphmill.core.errors import describe_error


class HttpError(Exception):
    """The request was sent, and no whole response came back."""


class NotSentError(HttpError):
    """No connection was made: the server has surely not seen the request."""


class UntrustedCertificateError(NotSentError):
    """The server's TLS certificate is not trusted."""


class ForbiddenAddressError(NotSentError):
    """The host has an address that this client may not connect to."""


class InvalidRequestError(NotSentError):
    """The URL or a header cannot be sent."""


class ResponseTooLargeError(HttpError):
    """The body has more bytes than allowed, decompressed."""


class UnknownEncodingError(HttpError):
    """The body has a content encoding that was not asked for."""


class BlockedSocketError(OSError):
    """Raised while connecting, by the check of an address; reaches us wrapped in aiohttp's error."""


def translate_error(error: Exception) -> HttpError:
    """Turn an error of aiohttp, or of the operating system, into ours."""
    import aiohttp  # noqa: PLC0415

    if isinstance(error, HttpError):
        return error
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return _translate_connecting(error)
    if isinstance(error, ValueError):  # InvalidURL is one, too
        return InvalidRequestError("not a valid URL or header")
    if isinstance(error, aiohttp.ClientPayloadError):
        return HttpError("response was cut off")
    if isinstance(error, aiohttp.ClientResponseError):
        return HttpError(f"response is not valid HTTP: {' '.join(error.message.split()):.200}")
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return HttpError("connection closed before the response arrived")
    return HttpError(f"{describe_error(error):.200}")


def _translate_connecting(error: Exception) -> NotSentError:
    """Say why there was no connection."""
    import aiohttp  # noqa: PLC0415

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return UntrustedCertificateError(f"TLS certificate not trusted: {_cause(error.certificate_error)}")
    if not isinstance(error, aiohttp.ClientConnectorError):
        return NotSentError("timed out while connecting")
    if isinstance(error.os_error, BlockedSocketError):
        return ForbiddenAddressError("the host's address is not public")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return NotSentError(f"host not found: {error.host} ({_cause(error.os_error)})")
    return NotSentError(f"cannot connect: {_refusal(error.os_error)} ({error.host}:{error.port})")


def _refusal(error: OSError) -> str:
    """Return the reason without the host, which asyncio puts in its place."""
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return _cause(error)


def _cause(error: BaseException) -> str:
    return getattr(error, "strerror", None) or describe_error(error)
