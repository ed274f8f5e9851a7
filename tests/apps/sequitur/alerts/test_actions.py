"""What an alert triggers, on a mail server and a web server of the test, and as a process."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiosmtpd.smtp import SMTP, AuthResult

from sequitur.alerts import actions as module
from sequitur.alerts.actions import Actions
from sequitur.alerts.config import Action
from topology.diagnostics.alerts import Alert

ALERT = Alert("refused\r\nBcc: x@y.z", {"view": "a\nb"}, 3, 0, 1_000, 2, {"error": "Refused: é"})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)


class Mailbox:
    """What the mail server has."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.refuses = 0

    async def handle_DATA(self, _: object, __: object, envelope: Any) -> str:
        if self.refuses:
            self.refuses -= 1
            return "451 later"
        self.mails.append(envelope)
        return "250 OK"


@pytest.fixture
async def mailbox() -> AsyncIterator[tuple[Mailbox, int]]:
    box = Mailbox()

    def connected() -> SMTP:
        return SMTP(
            box,
            authenticator=lambda *given: AuthResult(
                success=given[-1].password == b"secret", handled=False
            ),
            auth_require_tls=False,
        )

    server = await asyncio.get_running_loop().create_server(connected, "127.0.0.1", 0)
    async with server:
        yield box, server.sockets[0].getsockname()[1]


def mail(port: int, **more: Any) -> Action:
    given = {"smtp": f"127.0.0.1:{port}", "security": "none", "from": "a@b.c", "to": ["d@e.f"]}
    return Action.model_validate({**given, **more})


async def test_an_e_mail_goes_out_and_cannot_be_given_other_headers(
    mailbox: tuple[Mailbox, int],
) -> None:
    box, port = mailbox
    actions = Actions({"mail": mail(port)})
    await actions.carry_out("mail", ALERT)
    (envelope,) = box.mails
    assert envelope.rcpt_tos == ["d@e.f"]
    head, _, _ = envelope.content.partition(b"\r\n\r\n")
    assert b"\nBcc" not in head
    assert actions.done == 1


async def test_an_e_mail_is_tried_again(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    box.refuses = 2
    actions = Actions({"mail": mail(port)})
    await actions.carry_out("mail", ALERT)
    assert (len(box.mails), actions.done, actions.failed) == (1, 1, 0)


async def test_a_login_takes_its_password_from_the_environment(
    mailbox: tuple[Mailbox, int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    box, port = mailbox
    for secret, done in (("secret", 1), ("wrong-one", 0)):
        monkeypatch.setenv("MAIL_PASSWORD", secret)
        actions = Actions({"mail": mail(port, user="u", password="MAIL_PASSWORD")})
        await actions.carry_out("mail", ALERT)
        assert actions.done == done
    assert len(box.mails) == 1
    assert "wrong-one" not in caplog.text


async def test_a_server_without_tls_gets_no_mail_unless_it_is_said(
    mailbox: tuple[Mailbox, int],
) -> None:
    box, port = mailbox
    actions = Actions({"mail": mail(port, security="starttls")})
    await actions.carry_out("mail", ALERT)
    assert (box.mails, actions.failed) == ([], 1)


async def test_a_mail_that_is_given_up_went_nowhere() -> None:
    taken = begun = ended = 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each of its answers comes in time, and all of them do not."""
        nonlocal taken, begun, ended
        begun += 1
        writer.write(b"220 x\r\n")
        with suppress(ConnectionError):
            while line := await reader.readline():
                await asyncio.sleep(0.15)
                if line == b".\r\n":
                    taken += 1
                data = line.upper().startswith(b"DATA")
                writer.write(b"354 go\r\n" if data else b"250 ok\r\n")
                if data:
                    await reader.readuntil(b"\r\n.\r\n")
                    await asyncio.sleep(0.15)
                    taken += writer.transport.is_closing() is False and not reader.at_eof()
                    writer.write(b"250 ok\r\n")
        writer.close()
        ended += 1

    server = await asyncio.start_server(slow, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        actions = Actions({"mail": mail(port, time_limit=0.4)})
        await actions.carry_out("mail", ALERT)
        # Nobody tries any more, also where a busy machine had a try begin late or not at all.
        await asyncio.get_running_loop().shutdown_default_executor()
        async with asyncio.timeout(60):
            while ended < begun:
                await asyncio.sleep(0.01)
    assert begun
    assert (actions.failed, taken) == (1, 0)


@pytest.mark.parametrize(
    "given",
    [
        {"webhook": "http://127.0.0.1:9/", "token": "SECRET"},
        {"smtp": "127.0.0.1:9", "from": "a@b", "to": ["c@d"], "user": "u", "password": "SECRET"},
        {"smtp": "no-port", "from": "a@b", "to": ["c@d"]},
    ],
)
async def test_nothing_that_an_action_does_ends_the_watch(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "pä\n")
    actions = Actions({"one": Action.model_validate(given)})
    await actions.carry_out("one", ALERT)
    assert actions.failed == 1


async def test_a_webhook_is_posted_to_with_its_token_and_follows_no_redirect(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOOK", "secret-token")
    got: list[tuple[str, str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        got.append((request.path, request.headers["Authorization"], body))
        if request.path == "/moved":
            raise web.HTTPFound("/hook")
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path}", handle)
    async with TestServer(app) as server:
        for path in ("hook", "moved"):
            action = Action(webhook=str(server.make_url(f"/{path}")), token="HOOK")
            actions = Actions({"hook": action})
            await actions.carry_out("hook", ALERT)
            assert (actions.done, actions.failed) == ((1, 0) if path == "hook" else (0, 1))
    assert [each[0] for each in got] == ["/hook", "/moved", "/moved", "/moved"]
    assert got[0][1] == "Bearer secret-token"
    assert got[0][2]["count"] == 3
    assert "secret-token" not in caplog.text


async def test_a_command_reads_the_alert_and_is_killed_when_it_takes_too_long(
    tmp_path: Path,
) -> None:
    copy = f"import sys; open({str(tmp_path / 'got')!r}, 'wb').write(sys.stdin.buffer.read())"
    actions = Actions(
        {
            "copy": Action(command=(sys.executable, "-c", copy)),
            "hangs": Action(
                command=(sys.executable, "-c", "import time; time.sleep(600)"), time_limit=0.2
            ),
            "fails": Action(command=(sys.executable, "-c", "raise SystemExit(3)")),
            "absent": Action(command=("/no/such/program",)),
        }
    )
    for name in ("copy", "hangs", "fails", "absent"):
        await actions.carry_out(name, ALERT)
    assert orjson.loads((tmp_path / "got").read_bytes())["pattern"] == ALERT.pattern
    assert (actions.done, actions.failed) == (1, 3)


async def test_an_action_is_triggered_at_most_so_often_and_tells_of_the_rest(
    mailbox: tuple[Mailbox, int],
) -> None:
    box, port = mailbox
    actions = Actions({"mail": mail(port, most=2, each="10s")})
    assert [actions.admits("mail", time) for time in (0, 1, 2, 9_999, 10_000)] == [
        True, True, False, False, True,
    ]  # fmt: skip
    await actions.carry_out("mail", ALERT)
    (envelope,) = box.mails
    assert b"2 alerts before this one went to nobody" in envelope.content
