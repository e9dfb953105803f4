# SPDX-License-Identifier: GPL-3.0-or-later
"""A line with a round trip time: passes TCP on, each way after half of it, without a limit to what it carries.

``python delay.py TARGET_PORT MILLISECONDS`` listens on a free port of 127.0.0.1, prints it, and ends with its standard
input.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_CHUNK = 1 << 20


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Pass on what comes, in its order, each piece so long after it has come."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            due, data = await pieces.get()
            left = due - loop.time()
            if left > 0:
                await asyncio.sleep(left)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    sending = asyncio.create_task(send())
    try:
        while data := await reader.read(_CHUNK):
            pieces.put_nowait((loop.time() + seconds, data))
    finally:
        pieces.put_nowait((loop.time() + seconds, b""))
        with contextlib.suppress(ConnectionError):
            await sending
        writer.close()


async def serve(target: int, seconds: float) -> None:
    """Listen, say where, and pass on until standard input ends. seconds: the round trip."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)  # what TCP's own handshake takes
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target, limit=_CHUNK)
        ways = (_carry(reader, there_writer, seconds / 2), _carry(there_reader, writer, seconds / 2))
        await asyncio.gather(*ways, return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=_CHUNK, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
