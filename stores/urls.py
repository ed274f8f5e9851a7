"""URLs of stores as they may be shown."""


def without_password(url: str) -> str:
    """The URL without user and password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if "@" in rest else url
