"""What the commands of `faust -A app` have in common.

The exit status is 0 where the command is done or all is well, 1 where the answer is bad news, and 2
where the command could not read or could not be given: no broker, no right, no such view. A pager
may rely on it.
"""

import logging
import sys
import traceback
from typing import Any, ClassVar

import orjson
from aiokafka.errors import KafkaConnectionError, KafkaError
from faust.cli import AppCommand

from topology.faust.kafka.clients import connection
from topology.model.errors import described
from topology.model.printable import printable

LINE = 1000
"""Characters of the line that says why there is no answer."""
WIDE = 100_000
"""Characters of a line of an answer, at most."""
BAD_NEWS, CANNOT = 1, 2


class AnsweringCommand(AppCommand):
    """A command that answers on standard output, and with its exit status."""

    abstract: ClassVar[bool] = True
    redirect_stdouts = False

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command. Whatever keeps it from answering is one line on standard error."""
        # The line says what the clients would log of a broker that is not there.
        for client in ("aiokafka", "asyncio"):
            logging.getLogger(client).setLevel(logging.CRITICAL)
        try:
            return await super().execute(*args, **kwargs)
        except (RuntimeError, KeyError, ValueError, OSError, KafkaError) as error:
            reason = reason_of(error, connection(self.app)["bootstrap_servers"])
            print(printable(reason, LINE), file=sys.stderr, flush=True)
        except Exception:
            traceback.print_exc()
        raise SystemExit(CANNOT)

    def answer(self, text: str, facts: Any, *, bad: bool = False) -> None:
        """Print what was found, and end with status 1 if it is bad news.

        Args:
            text: for people; what a terminal should not be sent is escaped.
            facts: the same for a program, where `--json` was given.
            bad: whether it is bad news.
        """
        if self.json:
            print(orjson.dumps(facts, option=orjson.OPT_NON_STR_KEYS).decode())
        else:
            print("\n".join(printable(line, WIDE) for line in text.split("\n")))
        sys.stdout.flush()
        if bad:
            raise SystemExit(BAD_NEWS)

    @property
    def start(self) -> str:
        """What a command line for this app begins with."""
        return f"faust -A {self.state.app or self.app.conf.origin or 'app'}"


def reason_of(error: Exception, servers: Any) -> str:
    """Why there is no answer, in a line."""
    if isinstance(error, KafkaConnectionError):
        where = servers if isinstance(servers, str) else ", ".join(servers)
        return f"no broker answers at {where}; start it, or set SEQUITUR_BROKER"
    if isinstance(error, KafkaError) and error.retriable:
        return f"the broker has no answer yet: {described(error)}; try again"
    if isinstance(error, KafkaError):
        return f"the broker refuses it: {described(error)}; check the app's login and its rights"
    if isinstance(error, OSError | UnicodeError) or not error.args:
        return described(error)
    return str(error.args[0])
