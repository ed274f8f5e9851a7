"""The console's process ends, whatever its pages still wait for."""

import signal
import subprocess
import sys

SCRIPT = """
import asyncio, signal, time
import uvicorn
from sequitur.console import server

server._END, server._OVERDUE = 0, 0.5

async def app(scope, receive, send):
    while (await receive())["type"] != "lifespan.startup":
        pass
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
    await send({"type": "lifespan.startup.complete"})
    print("up", flush=True)
    await receive()
    await send({"type": "lifespan.shutdown.complete"})

signal.signal(signal.SIGTERM, lambda *_: None)  # as the console does
server._Server(uvicorn.Config(app, port=0, log_level="warning")).run()
"""


def test_it_ends_on_sigterm_while_a_search_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
