"""URLs of stores: read from files, and shown without their secrets."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

from topology.model.extras import pip_install

FILE = "@"
"""What a file is named by that a URL is in, so that the URL is on no command line: `@FILE`."""

_HIDDEN = "…"
_LONG = 4
"""Characters of a secret that is also looked for inside of words."""
_HOST = r"(?:\[[\da-fA-F:.]+\]|[\w.-]*)(?::\d*)?"
_URL = re.compile(
    r"(?P<scheme>[\w.+:-]*)://"
    rf"(?:(?P<login>[^/?]*)@)?(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_NO_HOST = frozenset({"sqlite", "rocksdb", "files", "delta"})
"""What follows these is a path, with whatever in it."""
_PLAIN = re.compile(r"[\w.+-]+(:[\w./-]*)?|/[\w./ -]*")
"""A kind of store, `module:name`, a path: what is no URL, and no attempt at one with a login."""
_HARMLESS = {
    **dict.fromkeys(
        (
            *("host", "hostaddr", "port", "dbname", "db", "service", "sslmode", "sslrootcert"),
            *("application_name", "connect_timeout", "tcp_user_timeout", "target_session_attrs"),
            *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
            *("channel_binding", "gssencmode", "client_encoding", "timeout", "mode"),
        ),
        re.compile(r"[\w./,:%-]*"),
    ),
    "options": re.compile(r"-c(?:%20|\+| )?search_path(?:=|%3[Dd])[\w,]*"),
}
"""What may be shown of a query, with what it looks like then. Everything else may be a secret."""
KEPT_ALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3"}
"""Of PostgreSQL: a server that is gone without a word is missed while a statement waits for it."""


class UrlError(ValueError):
    """A URL cannot be had from where it should be; the text does not hold it."""


def read_url(url: str) -> str:
    """The URL itself, or for `@FILE` the first line of that file. Raises UrlError."""
    if not url.startswith(FILE):
        return url
    try:
        lines = Path(url.removeprefix(FILE)).read_text().split("\n", 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UrlError(
            f"URL file {url!r}: {reason}; write @FILE for a file whose first line is the URL"
        ) from None
    if not (found := lines[0].strip()) or found.startswith(FILE):
        raise UrlError(f"URL file {url!r}: its first line is no URL")
    return found


def existing(url: str) -> str:
    """The URL of what is only looked at: of an SQLite file that is there, else it would be made.

    Raises UrlError.
    """
    file = url.removeprefix("sqlite:///").partition("?")[0]
    if url.startswith("sqlite:///") and not Path(file).exists():
        raise UrlError(
            f"{without_password(url)}: there is no such file; see that the path is right"
        )
    return url


def require(what: str, url: str, module: str, extra: str, error: type[Exception]) -> None:
    """Raise `error` if a package that the thing at `url` needs is not installed, or is broken."""
    try:
        import_module(module)
    except ImportError as missing:
        raise error(
            f"{what} {without_password(url)!r} needs the package {module} ({missing}); install it "
            f"with: {pip_install(extra)}"
        ) from missing


def without_password(url: str) -> str:
    """The URL without user and password, and without what its query may keep secret.

    Where a password begins and ends is not sure in a URL that is not well-formed, so of such a one
    only the scheme is left. What was shown is shown the same again.
    """
    found = _well_formed(url)
    if found is None:
        scheme = url.partition("://")[0]
        if scheme != url:
            return f"{scheme}://{_HIDDEN}" if re.fullmatch(r"[\w.+:-]*", scheme) else _HIDDEN
        path, asked, query = url.partition("?")
        known = not path or _PLAIN.fullmatch(path)
        return path + asked + _shown_query(query) if known else _HIDDEN
    login = "" if found["login"] is None else f"{_HIDDEN}@"
    query = "" if found["query"] is None else f"?{_shown_query(found['query'])}"
    return f"{found['scheme']}://{login}{found['hosts']}{found['path'] or ''}{query}"


def said(error: object, *urls: str) -> str:
    """What an error says, on one line, without the secrets of the URLs that it may be about."""
    text = str(getattr(error, "orig", None) or error)
    return " ".join(without_secrets(text, urls).split()) or type(error).__name__


def without_secrets(text: str, urls: Iterable[str]) -> str:
    """The text without what these URLs keep secret.

    A parser quotes what it could not read, which may be a part of a password only.
    """
    for url in filter(None, urls):
        text = _finding(url).sub(_HIDDEN, text.replace(url, without_password(url)))
    return text


@lru_cache(64)
def _finding(url: str) -> re.Pattern[str]:
    """What finds a URL's secrets, the longest first: every line of a log is looked through."""
    secrets = sorted(_secrets(url), key=len, reverse=True)
    parts = (re.escape(s) if len(s) >= _LONG else rf"(?<!\w){re.escape(s)}(?!\w)" for s in secrets)
    return re.compile("|".join(parts) or "(?!)")


def _well_formed(url: str) -> re.Match[str] | None:
    """The parts of a URL of which it is sure where they begin and end."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    path_only = found["scheme"].partition(":")[0] in _NO_HOST and not found["hosts"]
    return None if "@" in (found["path"] or "") and not path_only else found


def _shown_query(query: str) -> str:
    parts = []
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        harmless = _HARMLESS.get(name)
        if harmless is not None and harmless.fullmatch(value):
            parts.append(part)
        else:
            plain = equals and re.fullmatch(r"\w+", name)
            parts.append(f"{name}={_HIDDEN}" if plain else _HIDDEN)
    return "&".join(parts)


def _secrets(url: str) -> set[str]:
    """What is in a URL and is not shown, whole and in the parts that a parser may take it for."""
    found = _well_formed(url)
    if without_password(url) == url:
        return set()
    if found is None:
        path, _, query = url.partition("?")
        whole = {query if _PLAIN.fullmatch(path) else url.partition("://")[2] or url}
    else:
        whole = {(found["login"] or "").partition(":")[2]}
        for part in (found["query"] or "").split("&"):
            if _shown_query(part) != part:
                whole.add(part.partition("=")[2] or part)
    whole |= {unquote(text) for text in whole}
    parts = {part for text in whole for part in _pieces(text)}
    return {text for text in whole | parts if text.strip(_HIDDEN)}


def _pieces(text: str) -> Iterator[str]:
    """A part that begins or ends at any character that means something in a URL."""
    marks = [0, *(at.start() for at in re.finditer(r"[/?&=@:#%\s]", text)), len(text)]
    for number, start in enumerate(marks):
        for end in marks[number + 1 :]:
            yield text[start:end].strip("/?&=@:#% ")
