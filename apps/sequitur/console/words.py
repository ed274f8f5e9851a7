"""What runs beside the topology, each as its own commands name it."""

import shlex
from collections.abc import Mapping, Sequence

from stores.db.urls import without_password
from topology.diagnostics.explain.remedies import quoted

Words = Sequence[str]
PARTS = {
    "read-store": "A read store: its URL, or @FILE.",
    "relay": "A relay's log: what `sequitur relay status` takes.",
    "inbox": "An inbox: what `sequitur inbox counts` takes.",
    "units": "A subscriber: what `sequitur units status` takes.",
    "router": "A router: what `sequitur route status` takes.",
    "alerts": "Of `sequitur alerts --metrics`: http://HOST:PORT.",
    "sites": "The file of `sequitur sites`.",
    "replay": "The file of `sequitur replay`.",
}
"""Name of the option → its help."""
Parts = Mapping[str, Sequence[Words]]
"""Name → the words of each one that the console was told of."""


def short(words: Words) -> str:
    """What a part is called on its page: a file without the folders that it is in."""
    return quoted([each if "://" in each else each.rpartition("/")[2] for each in words])


def words_of(text: str) -> Words:
    """The words of an option. Raises ValueError where a page would show a secret."""
    words = shlex.split(text)
    if not words:
        raise ValueError("name it")
    for each in words:
        url = each.partition("=")[2] if each.startswith("--") else each
        if "://" in url and without_password(url) != url:
            raise ValueError("pages show it: put a URL with a login into a file, and write @FILE")
    return words
