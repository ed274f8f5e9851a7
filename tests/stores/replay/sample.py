"""Messages for the tests of replay logs."""

from typing import Any

from stores.replay import CapturedMessage, FieldKind

FIELDS = {"tail": FieldKind.TEXT, "delay": FieldKind.INTEGER, "share": FieldKind.NUMBER}
TIME = 1_700_000_000_000


def messages(count: int, **given: Any) -> list[CapturedMessage]:
    return [
        CapturedMessage(
            **{
                "topic": "moves",
                "partition": n % 3,
                "offset": 10 * n,
                "value": b'{"n": %d}' % n,
                "time": TIME + n * 1000,
                "key": b"k%d" % n,
                "headers": (("h", b"\xff"), ("h", b"")),
                "site": "ewr",
                "stream": f"s{n % 5}",
                "sequence": n,
                "metadata": {"tail": f"N{n}", "delay": n, "share": n / 4},
                **given,
            }
        )
        for n in range(count)
    ]
