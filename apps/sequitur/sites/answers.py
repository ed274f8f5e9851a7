"""Which sites answer, and what stands still or was given up between them, for the commands."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence

from sequitur.sites.config import SitesFile
from stores.sites import Site, SiteError
from stores.sites.checks import standing_still
from stores.sites.errors import AWAY
from stores.sites.fences import Rows
from stores.sites.takeover import cluster_of
from topology.model.printable import printable


async def decided(
    found: SitesFile, name: str, without: Sequence[str]
) -> tuple[Site, str, list[Site]]:
    """The site that is decided of, its cluster id, and the others, all of which answer.

    Raises:
        SiteError: one of them does not; it is one of them, or not the one that has forwarded.
    """
    site = found.named(name)
    others = found.others(name, *(found.named(each).name for each in without))
    if not others:
        raise SiteError("no other site is left: name fewer by --without")
    answering, away = await who_answers(others)
    if away:
        raise SiteError(f"{'; '.join(away)}: all others have to know; or name it by --without")
    cluster = await cluster_of(site, answering)
    if cluster in [await each.identify() for each in answering]:
        raise SiteError(f"site {name} is one of the others by another name: {printable(cluster)}")
    # Where its cluster is written down, another one may be at its address by now.
    there = None if site.cluster is not None else await id_of(site)
    if there not in (None, cluster):
        raise SiteError(
            f"{name} is cluster {printable(there)} now, and cluster {printable(cluster)} has "
            "forwarded under its name: write into the file which is meant, cluster = …"
        )
    return site, cluster, answering


async def who_answers(sites: Sequence[Site]) -> tuple[list[Site], list[str]]:
    """The sites that answer, and a line for each other one. Raises SiteError: two are one."""
    ids = await asyncio.gather(*map(id_of, sites))
    names: dict[str, str] = {}
    for site, id in zip(sites, ids, strict=True):
        if id is not None and (other := names.setdefault(id, site.name)) != site.name:
            raise SiteError(
                f"sites {printable(other)} and {printable(site.name)} are the same cluster, "
                f"{printable(id)}: remove one of them from the file"
            )
    answering = [site for site, id in zip(sites, ids, strict=True) if id is not None]
    return answering, [f"{s.name} does not answer" for s in sites if s not in answering]


async def topics_at(site: Site, topics: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the topics that a site has, and a line for each other one."""
    found, lines = list[str](), list[str]()
    for topic in topics:
        try:
            await site.partitions(topic)
            found.append(topic)
        except SiteError as error:
            lines.append(str(error))
    return found, lines


async def what_stands_still(site: Site, others: Sequence[Site], topics: Sequence[str]) -> list[str]:
    """A line for each partition of a site that is not forwarded to another one, with the reason."""
    return [
        f"{printable(topic)}/{number} of {site.name} stands still towards {peer.name}: {why}"
        for peer in others
        for topic in topics
        for number, why in (await standing_still(site, peer, topic)).items()
    ]


async def id_of(site: Site) -> str | None:
    """The cluster id of a site, None if it does not answer."""
    try:
        return await site.identify()
    except AWAY:
        return None


def given_up(
    rows: Rows, names: Mapping[str, str], topics: Collection[str] | None = None
) -> Iterator[str]:
    """What was given up of some topics, or all, by the rows of a site; `names` by cluster id."""
    for key, said in rows.items():
        if key[0] == "loss" and (topics is None or key[2] in topics):
            what = f"{names.get(str(key[1]), printable(key[1]))}'s {printable(key[2])}/{key[3]}"
            by = f"{printable(said['by'])}: {printable(said['reason'], 400)}"
            yield f"{what}, offsets {key[4]} to {key[5]}, given up by {by}"
