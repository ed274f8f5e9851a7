"""`sequitur sites`: forward between sites, say what is behind, and take over a lost one."""

import asyncio
import getpass
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
import orjson

from sequitur.cli.group import Group
from sequitur.cli.options import COUNT, FILE, metrics_option
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.sites.answers import decided, given_up, id_of, what_stands_still, who_answers
from sequitur.sites.config import SitesFile, load_sites
from sequitur.sites.pages import SitePages
from stores.sites import SiteError
from stores.sites.errors import AWAY
from stores.sites.fences import Fence, decide, fences_of
from stores.sites.forwarder import Forwarder
from stores.sites.lag import Behind, lag
from stores.sites.losses import accept_loss, deleted
from stores.sites.site import SITES
from stores.sites.takeover import cluster_of, survey, take_over
from topology.model.counted import counted
from topology.model.errors import DeclarationError
from topology.model.printable import printable

logger = logging.getLogger("sites")
_GRACE = 5.0
"""Seconds for which forwarders may finish what they have in hand."""


@click.group("sites", cls=Group)
def command() -> None:
    """Link sites that have a broker each, and take over one that is lost.

    \b
    sequitur sites forward newark.toml
    sequitur sites takeover newark.toml kennedy --epoch 1 --reason "power is out"

    FILE names this site, the others, and the topics that they share. gaps, lag and
    status end with status 1 where something is missing, stuck or out of reach.
    """


def _on_file(function: Callable[..., Awaitable[int]]) -> Callable[..., int]:
    """Give a command its file, and let it say in one line why it cannot be done."""

    @click.argument("file", type=FILE)
    @wraps(function)
    def run(file: Path, **given: Any) -> int:
        log_to_stderr()
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        try:
            found = load_sites(file)
            return asyncio.run(function(found, **given))  # type: ignore[arg-type]
        except (*MISTAKES, SiteError, *AWAY, ValueError) as error:
            return cannot(error, logger)

    return run


_json = click.option("--json", "as_json", is_flag=True, help="As JSON.")
_dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
_epoch = click.option("--epoch", type=COUNT, required=True, help="One above the last decision's.")
_reason = click.option("--reason", required=True, help="Why; it stays on record.")
_without = click.option(
    "--without", multiple=True, metavar="SITE", help="That is out of reach too; repeatable."
)


@command.command()
@click.argument("file", type=FILE)
@click.option("--peer", multiple=True, help="Forward to this site alone; repeatable.")
@metrics_option
def forward(file: Path, peer: tuple[str, ...], metrics: str | None) -> int:
    """Forward what is published here to the others, until it is stopped."""
    log_to_stderr()
    try:
        found = load_sites(file)
        peers = [found.named(name) for name in peer] or found.others(found.own)
        if found.here in peers:
            raise DeclarationError(f"--peer {found.own}: this is the own site; name another one")
    except MISTAKES as error:
        return cannot(error, logger)
    ways = [Forwarder(found.here, peer, topic) for peer in peers for topic in found.topics]

    async def work(stopped: asyncio.Event) -> None:
        async with SitePages(ways, found.here.kafka).at(metrics):
            tasks = [asyncio.create_task(each.run(stopped)) for each in ways]
            await stopped.wait()
        _, late = await asyncio.wait(tasks, timeout=_GRACE)
        for task in late:
            task.cancel()
        await asyncio.wait(tasks, timeout=_GRACE)

    return run_until_stopped(work)


@command.command("lag")
@_json
@_on_file
async def show_lag(found: SitesFile, as_json: bool) -> int:
    """Count what others lack of this site: what is lost if it is lost now."""
    peers, away = await who_answers(found.others(found.own))
    behind = await lag(found.here, peers, found.topics)
    away += await what_stands_still(found.here, peers, found.topics)
    lost = [each for each in behind if not each.site]
    if as_json:
        print(_as_json(behind, away))
    else:
        for line in [*away, *(str(each) for each in behind if each.missing)]:
            print(line)
        sure = all(each.messages is not None for each in lost)
        total = sum(
            each.high - each.low if each.messages is None else each.messages for each in lost
        )
        print(f"lost if {found.own} is lost now: {'' if sure else 'at most '}{total}")
    return BAD_NEWS if away or any(each.missing for each in behind) else DONE


@command.command()
@_json
@_on_file
async def gaps(found: SitesFile, as_json: bool) -> int:
    """Name what a site lacks of another one; none: all sites have all messages."""
    answering, away = await who_answers(list(found.sites.values()))
    behind: list[Behind] = []
    for site in found.sites.values():
        others = [each for each in answering if each is not site]
        if site in answering:
            every = await lag(site, others, found.topics)
            behind += [each for each in every if each.site and each.missing]
            away += await what_stands_still(site, others, found.topics)
        elif len(others) > 1:
            away.append(f"what {site.name} has and no other site is not known")
            try:
                behind += await survey(site.name, await cluster_of(site, others), others)
            except SiteError as error:  # it never forwarded, or the others lack some too
                away.append(str(error))
    if as_json:
        print(_as_json(behind, away))
    else:
        for line in [*away, *map(str, behind)]:
            print(line)
        names = {await site.identify(): site.name for site in answering}
        gone = [
            f"{site.name} lacks {line}"
            for site in answering
            for line in given_up(await site.rows(SITES), names, found.topics)
        ]
        for line in gone:
            print(line)
        if not away and not behind:
            print("none but what was given up" if gone else "none")
    return BAD_NEWS if away or behind else DONE


@command.command()
@_on_file
async def status(found: SitesFile) -> int:
    """Show the sites: who answers, what was decided of them, and how far behind others are."""
    answering, away = await who_answers(list(found.sites.values()))
    for line in away:
        print(line)
    names = {await site.identify(): site.name for site in answering}
    rows = {site.name: await site.rows(SITES) for site in answering}
    bad = bool(away)
    for cluster, name in names.items():
        print(f"{name}: cluster {printable(cluster)}")
    for where, known in rows.items():
        for cluster in sorted({str(key[1]) for key in known if key[0] == "fence"}):
            last = fences_of(known, cluster)[-1]
            bad |= last.fenced and cluster in names  # not for ever, of one that was replaced
            print(f"  at {where}: {names.get(cluster, printable(cluster))} was {last}")
        for line in given_up(known, names):
            print(f"  at {where}: {line}")
    for site in answering:
        others = [each for each in answering if each is not site]
        behind = await lag(site, others, found.topics, most=0)
        bad |= any(each.deleted for each in behind)
        for each in behind:
            if each.site and (each.high > each.low or each.deleted):
                print(f"  {each}")
    return BAD_NEWS if bad else DONE


@command.command()
@_epoch
@_reason
@_without
@_dry_run
@_on_file
@click.argument("site")
async def takeover(
    found: SitesFile, site: str, epoch: int, reason: str, without: tuple[str, ...], dry_run: bool
) -> int:
    """Take over a lost SITE: it forwards nothing more, and the others are made equal.

    What one of them has of it is copied to those that lack it. Run it again with the
    same epoch if it was interrupted: nothing comes twice.
    """
    lost, sites = await decided(found, site, without)
    cluster = await cluster_of(lost, sites)
    if dry_run:
        for each in await survey(site, cluster, sites):
            print(f"would copy: {each}")
        print(f"would fence {site}, cluster {printable(cluster)}, in epoch {epoch}")
        return DONE
    fence = Fence(epoch, True, getpass.getuser(), reason, time.time())
    copied = await take_over(site, cluster, sites, found.topics, fence, print)
    print(f"{site} is taken over in epoch {epoch}: {counted(copied, 'message')} copied")
    return DONE


@command.command("return")
@_epoch
@_reason
@_without
@_dry_run
@_on_file
@click.argument("site")
async def return_(
    found: SitesFile, site: str, epoch: int, reason: str, without: tuple[str, ...], dry_run: bool
) -> int:
    """Let a SITE that was taken over forward again, from where each other site is."""
    back, sites = await decided(found, site, without)
    cluster = await cluster_of(back, sites)
    behind = await lag(back, sites, found.topics) if await id_of(back) is not None else []
    for each in behind:
        if each.site and each.missing:
            print(f"{'would be' if dry_run else 'to be'} merged: {each}")
    if dry_run:
        print(f"would return {site}, cluster {printable(cluster)}, in epoch {epoch}")
        return DONE
    fence = Fence(epoch, False, getpass.getuser(), reason, time.time())
    for other in sites:
        await decide(other, cluster, fence)
    print(
        f"{site} is returned in epoch {epoch}: its forwarders go on; gaps says when all is merged"
    )
    return DONE


@command.command("accept-loss")
@click.option("--peer", required=True, help="The site that lacks it.")
@click.option("--topic", required=True)
@_reason
@_dry_run
@_on_file
async def give_up(found: SitesFile, peer: str, topic: str, reason: str, dry_run: bool) -> int:
    """Give up what retention deleted here before it was copied; the rest goes on."""
    there = found.named(peer)
    if dry_run:
        ranges = await deleted(found.here, there, topic)
    else:
        ranges = await accept_loss(found.here, there, topic, getpass.getuser(), reason)
    for number, low, high in ranges:
        word = "would give up" if dry_run else "given up"
        print(f"{word}: {printable(topic)}/{number}, offsets {low} to {high}, at {peer}")
    if not ranges:
        print("nothing that is deleted is missing there")
    return DONE


def _as_json(behind: Sequence[Behind], away: Sequence[str]) -> str:
    return orjson.dumps({"behind": behind, "away": away}).decode()
