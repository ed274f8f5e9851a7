"""Where a process listens."""


def read_address(text: object) -> str:
    """An address as host:port; a port alone is one of this machine's own, 127.0.0.1.

    Args:
        text: PORT or HOST:PORT; port 0 for one that is free.

    Raises:
        ValueError: it is neither.
    """
    host, _, port = str(text).rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ValueError("it must be a port, or host:port")
    return f"{host or '127.0.0.1'}:{int(port)}"
