"""Whether a request to a server of this machine may come from a web page of elsewhere."""

import ipaddress
from urllib.parse import urlsplit

from topology.model.printable import printable


def loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def same_origin(host: str, origin: str | None, *, local: bool) -> str | None:
    """Why a request is not answered, None if it is.

    Args:
        host: the header of that name.
        origin: the header of that name, None without one.
        local: whether the server listens on loopback: a page of another name that resolves to it
            (DNS rebinding) has that other name in both headers.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        came = None if origin is None else urlsplit(origin)
    except ValueError:
        return "its Host or Origin is none"
    if local and not loopback(name):
        return f"this server is at 127.0.0.1 and localhost, not at {printable(name, 80)}"
    if came is not None and (came.scheme not in ("http", "https") or came.netloc != host):
        return f"it comes from a page of {printable(origin, 80)}, not of this server"
    return None
