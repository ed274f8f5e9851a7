"""The pages."""

from sequitur.console.pages import failures, gaps, overview, stream, view
from sequitur.console.site import Site


def register(site: Site) -> None:
    """Add all pages."""
    for page in (overview, view, gaps, stream, failures):
        page.register(site)


__all__ = ["register"]
