"""The pages."""

from sequitur.console.pages import (
    audit,
    delivery,
    failures,
    gaps,
    lateness,
    overview,
    read_store,
    replay,
    routing,
    sites,
    stream,
    units,
    view,
)  # fmt: skip
from sequitur.console.site import Site


def register(site: Site) -> None:
    """Add all pages; those of parts that there are."""
    for page in (overview, view, gaps, stream, failures, lateness, audit):
        page.register(site)
    of_parts = {read_store: ["read-store"], delivery: ["relay", "inbox"], units: ["units"],
                routing: ["router", "alerts"], sites: ["sites"], replay: ["replay"]}  # fmt: skip
    for part, needs in of_parts.items():
        if any(map(site.parts.get, needs)):
            part.register(site)


__all__ = ["register"]
