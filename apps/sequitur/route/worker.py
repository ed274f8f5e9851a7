"""The worker of `sequitur route serve`: a Faust app of the router that ROUTER's file describes.

Faust's own commands, and a topology's, work on it too:
`SEQUITUR_ROUTER=router.toml faust -A sequitur.route.worker views`.
"""

import os
from pathlib import Path

from sequitur.route.router_file import load_router
from topology.faust import compile

ROUTER = "SEQUITUR_ROUTER"
"""The variable that has the path of the file."""

router = load_router(Path(os.environ[ROUTER]))
broker = {} if router.broker is None else {"broker": router.broker}
app = compile(router.topology(), **broker)
