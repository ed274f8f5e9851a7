"""Several sites, each with a broker of its own, linked by forwarding: everything once, everywhere.

A `SitePublisher` publishes at one of them, and may wait for a second one. What forwards, counts
and takes over is in the modules, for `sequitur sites`.
"""

from stores.sites.errors import GivenUp, NotCopied, SiteError
from stores.sites.origin import Origin
from stores.sites.publisher import SitePublisher
from stores.sites.site import Site

__all__ = ["GivenUp", "NotCopied", "Origin", "Site", "SiteError", "SitePublisher"]
