"""The driver's WebSocket client, for answers of any size.

Left alone it takes 4 MiB and then hangs up, on everybody who shares the connection. One
event may be as large, and a page of messages is larger easily.
"""

from __future__ import annotations

import aiohttp
from libsql_client.hrana import HranaClient
from libsql_client.hrana.conn import HranaConn

__all__ = ("WebSocketClient",)


class WebSocketClient(HranaClient):  # type: ignore[misc] # the driver has no types
    """A client whose connections know no limit."""

    def _open_conn(self) -> HranaConn:
        return _Connection(self._session, self._url, self._auth_token)


class _Connection(HranaConn):  # type: ignore[misc] # the driver has no types
    async def _do_connect(
        self, session: aiohttp.ClientSession, url: str
    ) -> aiohttp.ClientWebSocketResponse:
        return await session.ws_connect(url, protocols=["hrana2"], autoclose=False, max_msg_size=0)
