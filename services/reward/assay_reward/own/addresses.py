"""User-defined rewards behind URLs, called over HTTP with limits on their replies."""

import aiohttp

from assay_shared.errors import Overloaded, RewardFault, TimedOut, Unreachable
from assay_shared.text.strict_json import DuplicateKey, read_strict_json

_MAX_BYTES = 2**20
_CONNECT_S = 5.0
_MAX_CONNECTIONS = 64
_RETRYABLE = frozenset({408, 425, 429})


class UrlRewards:
    """A client of reward URLs; it opens its session with the first call."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def call(self, url: str, question: bytes, *, timeout_s: float) -> object:
        """Return the `values` of the URL's JSON reply to `question`.

        Redirects are not followed, and no token of Assay's is sent.

        Raises:
            TimedOut, Unreachable, Overloaded: there is no reply, or a temporary error.
            RewardFault: the reply cannot be used.
        """
        try:
            async with self._open().post(
                url,
                data=question,
                headers={"content-type": "application/json", "accept-encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S),
                allow_redirects=False,
            ) as response:
                _check_head(url, response)
                content = await _read(url, response)
        except TimeoutError as error:
            raise TimedOut(f"{url}: no answer within {timeout_s:g} s", service="reward") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                f"{url}: {error or type(error).__name__}", service="reward"
            ) from error
        try:
            reply = read_strict_json(content, takes_nan=True)
        except DuplicateKey as error:
            raise RewardFault(f"{url}: in the answer, {error}") from None
        except ValueError as error:
            raise RewardFault(f"{url}: the answer is not JSON") from error
        return reply.get("values") if isinstance(reply, dict) else None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def _check_head(url: str, response: aiohttp.ClientResponse) -> None:
    status = response.status
    if status == 429:
        raise Overloaded(f"{url}: HTTP 429", service="reward")
    if status >= 500 or status in _RETRYABLE:
        raise Unreachable(f"{url}: HTTP {status}", service="reward")
    if 300 <= status < 400:
        raise RewardFault(f"{url}: HTTP {status}: redirects are not followed")
    if status != 200:
        raise RewardFault(f"{url}: HTTP {status}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise RewardFault(f"{url}: the answer is compressed, which was not asked for")


async def _read(url: str, response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > _MAX_BYTES:
            raise RewardFault(f"{url}: the answer has more than {_MAX_BYTES} bytes")
    return bytes(content)
