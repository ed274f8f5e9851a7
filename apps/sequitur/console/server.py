"""The console's process: one server, one thread that reads Kafka, until a signal."""

import logging
import os
import signal
import socket
import threading
from contextlib import closing
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from nicegui import ui

from sequitur.console import look_command
from sequitur.console.access import Access
from sequitur.console.guard import Guard
from sequitur.console.login import Login
from sequitur.console.pages import register
from sequitur.console.reader import Reader
from sequitur.console.site import Site
from sequitur.console.words import Parts

logger = logging.getLogger("console")
_END = 2
"""Seconds that browsers are given to leave."""
_OVERDUE = 5
"""Seconds behind them after which it ends though a thread still waits for an answer."""


def serve(app: Any, place: str, access: Access, port: int, parts: Parts) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status. Raises OSError for a taken port."""
    with closing(_listening(access.host, port)) as listening, Reader(app) as reader:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the pages say what is wrong
        look_command.begin()
        web = FastAPI(openapi_url=None)
        login = Login(access)
        web.add_api_route("/login", login.page, methods=["GET"])
        web.add_api_route("/login", login.enter, methods=["POST"])
        web.add_api_route("/logout", login.leave, methods=["POST"])
        register(Site(app, place, access, reader, parts))
        ui.run_with(
            web, title="Sequitur", dark=None, language="en-US", tailwind=False,
            show_welcome_message=False, message_history_length=0,
        )  # fmt: skip
        config = uvicorn.Config(
            Guard(web, access), log_level="warning", access_log=False,
            timeout_graceful_shutdown=_END, server_header=False, ws_max_size=1 << 20,
        )  # fmt: skip
        shown = f"[{access.host}]" if ":" in access.host else access.host
        logger.info("console: http://%s:%d/", shown, listening.getsockname()[1])
        # The server ends in order, and then raises what it got: that is for nobody.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        _Server(config).run(sockets=[listening])
    return 0


class _Server(uvicorn.Server):
    """Ends in time, whatever its threads still look at."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order; who waits for a database or a broker is not waited for long."""
        super().handle_exit(sig, frame)
        overdue = threading.Timer(_END + _OVERDUE, os._exit, [0])
        overdue.daemon = True
        overdue.start()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)  # who is told the address may come at once
    except OSError as error:
        found.close()
        raise OSError(f"cannot listen at {host} port {port}: {error.strerror}") from None
    return found
