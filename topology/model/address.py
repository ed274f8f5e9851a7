"""Addresses: where a process listens, and which brokers it asks."""


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


def read_brokers(text: str) -> str:
    """Kafka's brokers as host:port, several joined by commas.

    Args:
        text: the same; a semicolon separates too, and each may begin with kafka://.

    Raises:
        ValueError: it is none of that; the text is not in it, as it may have a password.
    """
    if "@" in text:
        raise ValueError(
            "write host:port; how to log in is said by broker_credentials or --kafka-properties"
        )
    parts = (part.strip().removeprefix("kafka://") for part in text.replace(";", ",").split(","))
    found = [part for part in parts if part]
    if not found or any("/" in part for part in found):
        raise ValueError("write host:port, several joined by commas")
    return ",".join(found)
