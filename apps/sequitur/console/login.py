"""Sign in and out: forms without scripts, whose answers set a cookie that scripts cannot read."""

import asyncio
from html import escape
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sequitur.console.access import LASTS, Access
from sequitur.console.guard import COOKIE, secret_of

_MOST = 4096
_PAUSE = 1.0
"""Seconds that a wrong token takes."""
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>Sign in · Sequitur</title>
<style>:root {{ color-scheme: light dark }} body {{ font: 1rem/1.5 system-ui; margin: 3rem auto;
max-width: 26rem; padding: 0 1rem }} label, input {{ display: block; width: 100%; box-sizing:
border-box }} input {{ font: inherit; padding: .4rem; margin-bottom: 1rem }}
button {{ font: inherit; padding: .4rem 1rem }}</style></head><body><main><h1>Sign in</h1>
<p>{said}</p><form method="post" action="/login">
<label for="who">Your name, for the record</label>
<input id="who" name="who" required maxlength="60" autocomplete="username">
<label for="token">Token</label>
<input id="token" name="token" type="password" required autocomplete="current-password">
<button>Sign in</button></form><p><a href="/">Back</a></p></main></body></html>"""
_SAID = "Whoever gives the token of this console may act for eight hours."
_NONE = "This console has no token: nobody can act. Start it with CONSOLE_TOKEN set."


class Login:
    """The pages of /login and /logout."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def page(self, _: Request) -> Response:
        """The form."""
        return self._form(_SAID if self._access.open else _NONE)

    async def enter(self, request: Request) -> Response:
        """Take the token."""
        fields = await _fields(request)
        secret = self._access.enter(fields.get("token", ""), fields.get("who", ""))
        if secret is None:
            await asyncio.sleep(_PAUSE)
            return self._form("That is not the token.", 403)
        answer = RedirectResponse("/", 303)
        secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        answer.set_cookie(
            COOKIE, secret, max_age=int(LASTS), httponly=True, samesite="strict", secure=secure
        )
        return answer

    async def leave(self, request: Request) -> Response:
        """End the session."""
        self._access.leave(secret_of(request.headers.get("cookie", "")))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    def _form(self, said: str, status: int = 200) -> Response:
        return HTMLResponse(_PAGE.format(said=escape(said)), status)


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a form; of one that is too large, none."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST:
            return {}
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
