"""A Redis of one's own: it starts, keeps what it holds, and leaves nothing behind."""

from typing import Any

import pytest
import redis

from checkout.redis import Redis
from sequitur.local.home import LocalError


def client(server: Redis) -> Any:
    return redis.Redis.from_url(server.url.removeprefix("redis+"))


def test_it_starts_and_keeps_what_it_holds_over_stop_and_kill_and_goes_with_its_folder(
    redis_server: Redis,
) -> None:
    with Redis() as server:
        client(server).set("kept", 17)
        client(redis_server).delete("kept")
        server.stop()
        with pytest.raises(redis.ConnectionError):
            client(server).get("kept")
        server.start()
        assert client(server).get("kept") == b"17"
        server.kill()
        server.start()
        server.start()
        assert client(server).get("kept") == b"17"
        assert client(redis_server).get("kept") is None
        assert client(server).config_get("port") == {"port": "0"}
        assert server.folder.stat().st_mode & 0o077 == 0
    assert not server.folder.exists()


@pytest.mark.usefixtures("redis_server")
def test_a_start_that_fails_says_why() -> None:
    server = Redis({"maxmemory": "nonsense"})
    try:
        with pytest.raises(LocalError, match=r"(?s)it ended with 1.*maxmemory.*Remedy"):
            server.start()
    finally:
        server.close()
