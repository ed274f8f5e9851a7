"""Who was taken over, and who returned: rows of `sequitur-sites`, which stay for the record."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer

from stores.sites.copy_writer import SHUT_OUT
from stores.sites.errors import SiteError, SiteFenced
from stores.sites.site import SITES, Site, key_of
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

Rows = Mapping[tuple[str | int, ...], Any]
_FURTHEST = 10**15
"""By which an epoch may be above the last one, so that there are always higher ones."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What was decided of a site in an epoch.

    Attributes:
        epoch: counts up with each decision.
        fenced: whether it forwards nothing.
        by: who decided.
        reason: why.
        at: when, seconds since 1970.
    """

    epoch: int
    fenced: bool
    by: str
    reason: str
    at: float

    def __str__(self) -> str:
        what = "taken over" if self.fenced else "returned"
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.at))
        why = f": {printable(self.reason, 400)}" if self.reason else ""
        return f"{what} in epoch {self.epoch} by {printable(self.by)}, {when}{why}"


def fences_of(rows: Rows, cluster: str) -> list[Fence]:
    """What was decided of a site, the last one last."""
    found = [Fence(**each) for key, each in rows.items() if key[:2] == ("fence", cluster)]
    return sorted(found, key=lambda each: each.epoch)


def check_fence(rows: Rows, cluster: str, where: str) -> None:
    """Raise SiteFenced if a site forwards nothing to another one, by that one's rows."""
    if (found := fences_of(rows, cluster)) and found[-1].fenced:
        raise SiteFenced(
            f"this site was {found[-1]}; site {printable(where)} takes nothing from it until "
            "`sequitur sites return`"
        )


def clusters_named(rows: Rows, name: str) -> set[str]:
    """The cluster ids of the sites that have forwarded under a name."""
    return {str(key[1]) for key, value in rows.items() if key[0] == "name" and value == name}


def topic_row(cluster: str, topic: str) -> tuple[str | int, ...]:
    """The key of the row that says that a site has begun to forward a topic."""
    return "topic", cluster, topic


def topics_begun(rows: Rows, cluster: str) -> set[str]:
    """The topics that a site has begun to forward, whether or not anything came of it."""
    return {str(key[2]) for key in rows if len(key) == 3 and key[:2] == ("topic", cluster)}


async def decide(site: Site, cluster: str, fence: Fence) -> None:
    """Write at a site what is decided of another one; nothing if that is written there already.

    Raises:
        SiteError: its epoch is not above the last one, or there is nothing to return from.
    """
    await site.prepare()
    # Of two who decide at once, the later one shuts out the other before it reads.
    producer = AIOKafkaProducer(**site.kafka, transactional_id=f"sites/{cluster}")
    try:
        await producer.start()
        if allowed(fences_of(await site.rows(SITES), cluster), fence, site.name):
            async with producer.transaction():
                key = key_of(("fence", cluster, fence.epoch))
                await producer.send_and_wait(SITES, orjson.dumps(asdict(fence)), key, 0)
    except SHUT_OUT as error:
        raise SiteError(
            f"at site {printable(site.name)} somebody else decides of it right now: look at "
            "`sequitur sites status`, and run this again if that still holds"
        ) from error
    finally:
        await wait_for_stop(producer.stop())


async def check(sites: Iterable[Site], cluster: str, fence: Fence) -> None:
    """Raise SiteError if one of these sites does not take a decision."""
    for site in sites:
        allowed(fences_of(await site.rows(SITES), cluster), fence, site.name)


def allowed(before: Iterable[Fence], fence: Fence, where: str) -> bool:
    """Whether a decision is to be written; not if it is already. Raises SiteError. Pure."""
    last = [*before][-1:]
    if last and last[0].epoch == fence.epoch and last[0].fenced == fence.fenced:
        return False
    if last and fence.epoch <= last[0].epoch:
        raise SiteError(
            f"site {printable(where)} knows of epoch {last[0].epoch} already ({last[0]}): give "
            f"--epoch {last[0].epoch + 1}"
        )
    if fence.epoch > (last[0].epoch if last else 0) + _FURTHEST:
        raise SiteError(f"epoch {fence.epoch} is too far above the last one: give the next")
    if not fence.fenced and not (last and last[0].fenced):
        raise SiteError(f"at site {printable(where)} it was not taken over: nothing to return from")
    return True
