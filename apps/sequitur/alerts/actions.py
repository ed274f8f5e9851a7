"""What an alert triggers: an e-mail, a webhook, a command, or a function."""

import asyncio
import logging
import os
import smtplib
import socket
import ssl
import threading
import time
from collections import deque
from contextlib import suppress
from email.message import EmailMessage
from typing import Any, Protocol

import aiohttp
import orjson

from sequitur.alerts.config import Action
from topology.model.counted import counted
from topology.model.dotted import load
from topology.model.errors import DeclarationError
from topology.model.printable import printable

logger = logging.getLogger("alerts")

TRIES = 3
"""How often an action is tried for an alert."""
PAUSE = 2.0
"""Seconds between two tries."""


class Told(Protocol):
    """What an action is carried out for."""

    @property
    def subject(self) -> str:
        """One line."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """It, for JSON."""
        ...


class ActionFailed(Exception):
    """It was not done; the text says why, without secrets."""


class Actions:
    """Carries actions out, each at most so often.

    Args:
        actions: name → action.

    Attributes:
        done: how many were carried out.
        failed: how many were given up.
        held_back: action → how many were too many, since the last one that was not.
        all_held_back: how many were too many.

    Raises:
        DeclarationError: a variable that has a secret is not set.
    """

    def __init__(self, actions: dict[str, Action]) -> None:
        self._actions = actions
        self._recent = {name: deque[int](maxlen=each.most) for name, each in actions.items()}
        self.done = self.failed = self.all_held_back = 0
        self.held_back = dict.fromkeys(actions, 0)
        for name, each in actions.items():
            for variable in filter(None, (each.password, each.token)):
                if variable not in os.environ:
                    raise DeclarationError(f"action {name!r}: the variable {variable} is not set")

    @property
    def memory(self) -> float:
        """Seconds of alerts that decide about the next one."""
        return max((each.each for each in self._actions.values()), default=0.0)

    def admits(self, name: str, time: int, *, new: bool = True) -> bool:
        """Whether an action may be triggered at a time (ms); the time is noted if it may.

        What is not new is not held back now: it was, when it came.
        """
        recent, action = self._recent[name], self._actions[name]
        if len(recent) == action.most and time < recent[0] + action.each * 1000:
            self.held_back[name] += new
            self.all_held_back += new
            return False
        recent.append(time)
        return True

    async def carry_out(self, name: str, alert: Told) -> bool:
        """Do it, in several tries; one that fails is logged and given up. Says if it is done."""
        action, more = self._actions[name], self.held_back[name]
        self.held_back[name] = 0
        text = str(alert)
        if more:
            text += f"\n\n{counted(more, 'alert')} before this one went to nobody: too many."
        for number in range(1, TRIES + 1):
            try:
                async with asyncio.timeout(action.time_limit):
                    await _DO[action.kind](action, alert, text)
            except Exception as error:
                # Nothing that an action does ends the watch: at the next start it would come to the
                # same record. What a client says may name the URL, which may be a secret.
                why = str(error) if isinstance(error, ActionFailed) else type(error).__name__
                logger.warning(
                    "action %s (%s), try %d of %d: %s",
                    name, action.kind, number, TRIES, printable(why, 400),
                )  # fmt: skip
                if number < TRIES:
                    await asyncio.sleep(PAUSE)
            else:
                self.done += 1
                logger.info("action %s (%s): %s", name, action.kind, alert.subject)
                return True
        self.failed += 1
        logger.error("action %s (%s) is given up: %s", name, action.kind, alert.subject)
        return False


async def _mail(action: Action, alert: Told, text: str) -> None:
    message = EmailMessage()
    message["From"], message["To"] = action.sender, ", ".join(action.to)
    message["Subject"] = alert.subject
    message.set_content(text)
    try:
        await asyncio.to_thread(_send, action, message)
    except smtplib.SMTPException as error:
        raise ActionFailed(type(error).__name__) from None


def _send(action: Action, message: EmailMessage) -> None:
    host, _, port = (action.smtp or "").rpartition(":")
    context = ssl.create_default_context()
    limit, began = action.time_limit, time.monotonic()
    server = (
        smtplib.SMTP_SSL(timeout=limit, context=context)
        if action.security == "tls"
        else smtplib.SMTP(timeout=limit)
    )
    server._host = host  # type: ignore[attr-defined]  # the name that a certificate is held against
    server.connect(host, int(port))
    # A thread cannot be cancelled, and each answer may take as long as the limit: what is cut off
    # then sends no mail after it was given up.
    ending = threading.Timer(max(0.0, began + limit - time.monotonic()), _cut_off, [server])
    ending.daemon = True
    ending.start()
    try:
        with server:
            if action.security == "starttls":
                server.starttls(context=context)
            if action.user:
                server.login(action.user, os.environ.get(action.password, ""))
            server.send_message(message)
    finally:
        ending.cancel()


def _cut_off(server: smtplib.SMTP) -> None:
    if server.sock is not None:
        with suppress(OSError):
            server.sock.shutdown(socket.SHUT_RDWR)


async def _post(action: Action, alert: Told, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    if action.token:
        headers["Authorization"] = f"Bearer {os.environ[action.token]}"
    body = orjson.dumps({**alert.as_dict(), "text": text})
    async with (
        aiohttp.ClientSession() as http,
        http.post(
            action.webhook or "", data=body, headers=headers, allow_redirects=False
        ) as answer,
    ):
        if not 200 <= answer.status < 300:
            raise ActionFailed(f"the answer is {answer.status}")


async def _run(action: Action, alert: Told, text: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *action.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await process.communicate(orjson.dumps({**alert.as_dict(), "text": text}))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ActionFailed(f"the command ended with status {process.returncode}")


async def _call(action: Action, alert: Told, text: str) -> None:
    function = load("function", action.function, "a function")
    try:
        await asyncio.to_thread(function, {**alert.as_dict(), "text": text})
    except Exception as error:
        raise ActionFailed(f"{type(error).__name__}: {error}") from None


_DO = {"function": _call, "e-mail": _mail, "webhook": _post, "command": _run}
