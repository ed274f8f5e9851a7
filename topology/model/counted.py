"""A number and what is counted, as people read them."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 event` or `2,000 events`.

    Args:
        number: how many.
        one: of one, such as `event` or `event waits`.
        many: of several; `one` and an s unless given.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
