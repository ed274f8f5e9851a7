"""What all commands of `faust -A app` that answer a question or give an order have in common.

The exit status is 0 where it is done or well, 1 where the answer is bad news, 2 where the command
could not look or could not be given: no broker, no right, no such view. A pager may rely on it.
"""

import logging
import sys
import traceback
from typing import Any, ClassVar

import orjson
from aiokafka.errors import KafkaConnectionError, KafkaError
from faust.cli import AppCommand, option

from topology.faust.kafka.clients import connection
from topology.model.errors import described
from topology.model.printable import printable

LINE = 1000
"""Characters of the line that says why there is no answer."""

WIDE = 100_000
"""Characters of a line of an answer, at most."""

JSON = option("--json", "as_json", is_flag=True, default=False, help="Answer in JSON.")


class CannotTell(RuntimeError):
    """Why there is no answer, and what to do; a command that raises it ends with status 2."""


class Answering(AppCommand):
    """A command that answers on standard output, and with its exit status."""

    abstract: ClassVar[bool] = True
    redirect_stdouts = False

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command. Whatever keeps it from answering is one line on standard error."""
        # What the client has to say of a broker that is not there, the line says as well.
        for client in ("aiokafka", "asyncio"):
            logging.getLogger(client).setLevel(logging.CRITICAL)
        try:
            return await super().execute(*args, **kwargs)
        except (RuntimeError, KeyError, ValueError, OSError, KafkaError) as error:
            reason = _reason(error, connection(self.app)["bootstrap_servers"])
            print(printable(reason, LINE), file=sys.stderr, flush=True)
        except Exception:
            traceback.print_exc()
        raise SystemExit(2)

    def answer(self, text: str, facts: Any, as_json: bool) -> None:
        """Print what was found; of a text, nothing that no terminal should be sent."""
        if as_json:
            print(orjson.dumps(facts, option=orjson.OPT_NON_STR_KEYS).decode())
        else:
            print("\n".join(printable(line, WIDE) for line in text.split("\n")))
        sys.stdout.flush()

    @property
    def start(self) -> str:
        """What a command line for this app begins with."""
        return f"faust -A {self.state.app or self.app.conf.origin or 'app'}"


def _reason(error: Exception, servers: Any) -> str:
    """Why there is no answer, in a line."""
    if isinstance(error, KafkaConnectionError):
        where = servers if isinstance(servers, str) else ", ".join(servers)
        return f"no broker answers at {where}; start it, or set SEQUITUR_BROKER"
    if isinstance(error, KafkaError) and error.retriable:
        return f"the broker has no answer yet: {described(error)}; try again"
    if isinstance(error, KafkaError):
        return f"the broker refuses it: {described(error)}; look at the app's login and its rights"
    if isinstance(error, OSError) or not error.args:
        return described(error)
    return str(error.args[0])
