"""What a stream has said, in order, as one hash, by which two runs are compared."""

from hashlib import blake2b
from typing import NamedTuple


class OutputChain(NamedTuple):
    """A stream's outputs of its last epoch: how many, the last sequence, the hash of all in order.

    A rebuilt stream has the hash of one that said the same without being rebuilt.
    """

    records: int
    last: int
    hash: bytes
    epoch: int = 0

    @property
    def at(self) -> tuple[int, int]:
        return self.epoch, self.last


START = OutputChain(0, -(2**63) - 1, bytes(8))


def chained(chain: OutputChain, sequence: int, value: bytes) -> OutputChain:
    """The chain with one more record."""
    link = blake2b(b"%b%d %b" % (chain[2], sequence, value), digest_size=8)
    return OutputChain(chain[0] + 1, sequence, link.digest(), chain[3])
