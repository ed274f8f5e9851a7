"""`sequitur sites lag`, `gaps` and `status`: what others lack, and what was decided."""

from collections.abc import Sequence

import click
import orjson

from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.sites.answers import given_up, topics_at, what_stands_still, who_answers
from sequitur.sites.config import SitesFile
from sequitur.sites.on_file import on_file
from stores.sites import SiteError
from stores.sites.fences import fences_of
from stores.sites.lag import Behind, lag
from stores.sites.site import SITES
from stores.sites.takeover import cluster_of, survey
from topology.model.printable import printable

_json = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@click.command("lag")
@_json
@on_file
async def show_lag(found: SitesFile, as_json: bool) -> int:
    """Count what others lack of this site: what is lost if it is lost now."""
    peers, away = await who_answers(found.others(found.own))
    topics, lacks = await topics_at(found.here, found.topics)
    behind = await lag(found.here, peers, topics)
    away += [*lacks, *await what_stands_still(found.here, peers, topics)]
    lost = [each for each in behind if not each.site]
    if as_json:
        print(_as_json(behind, away))
    else:
        for line in [*away, *(str(each) for each in behind if each.missing)]:
            print(line)
        sure, total = all(each.exact for each in lost), sum(each.most for each in lost)
        print(f"lost if {found.own} is lost now: {'' if sure else 'at most '}{total}")
    return BAD_NEWS if away or any(each.missing for each in behind) else DONE


@click.command()
@_json
@on_file
async def gaps(found: SitesFile, as_json: bool) -> int:
    """Name what a site lacks of another one; none: all sites have all messages."""
    answering, away = await who_answers(list(found.sites.values()))
    behind: list[Behind] = []
    for site in found.sites.values():
        others = [each for each in answering if each is not site]
        if site in answering:
            topics, lacks = await topics_at(site, found.topics)
            every = await lag(site, others, topics)
            behind += [each for each in every if each.site and each.missing]
            away += [*lacks, *await what_stands_still(site, others, topics)]
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


@click.command()
@on_file
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
        topics, still = await topics_at(site, found.topics)
        behind = await lag(site, others, topics, most=0)
        still += await what_stands_still(site, others, topics)
        bad |= bool(still) or any(each.deleted for each in behind)
        for line in still:
            print(f"  {line}")
        for each in behind:
            if each.site and (each.high > each.low or each.deleted):
                print(f"  {each}")
    return BAD_NEWS if bad else DONE


def _as_json(behind: Sequence[Behind], away: Sequence[str]) -> str:
    return orjson.dumps({"behind": behind, "away": away}).decode()


COMMANDS = (show_lag, gaps, status)
