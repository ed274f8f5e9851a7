"""The worker of `sequitur route serve`: a Faust app of the router that ROUTER's file describes.

Faust's own commands, and a topology's, work on it too:
`SEQUITUR_ROUTER=router.toml faust -A sequitur.route.worker views`. What `serve` was told of Kafka
is in the environment as well; its file of client properties has the secrets.
"""

import os
from pathlib import Path

from sequitur.kafka.login import worker_login
from sequitur.route.router_file import load_router
from topology.faust import compile

ROUTER = "SEQUITUR_ROUTER"
"""The variable that has the path of the file."""
BROKER, PROPERTIES = "SEQUITUR_ROUTER_BROKER", "SEQUITUR_ROUTER_PROPERTIES"
"""Those that have `--broker` and `--kafka-properties`."""

router = load_router(Path(os.environ[ROUTER]))
broker, properties = os.environ.get(BROKER), os.environ.get(PROPERTIES)
login = worker_login(broker or router.broker, Path(properties) if properties else None)
app = compile(router.topology(), **login)
