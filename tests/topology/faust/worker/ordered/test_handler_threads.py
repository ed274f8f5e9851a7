"""Threads of handlers: no more than allowed, used again, and no hindrance when a process ends."""

import subprocess
import sys
import threading
from concurrent.futures import wait

import pytest

from topology.faust.worker.handler_threads import HandlerThreads

WORKER = """
import asyncio, signal, threading, time
from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import Topology

def hang(event):
    print("hangs", flush=True)
    while True:
        time.sleep(600)

async def main():
    topology = Topology("t")
    topology.parallel("work", topic="in", workers=2, handler=hang)
    held = Partition(topology)
    held.log.append("a", 0)
    held.start()
    ends = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ends.set)
    await ends.wait()
    await held.runner.stop(1)

asyncio.run(main())
print("ended", flush=True)
"""


@pytest.mark.integration
def test_a_thread_that_hangs_does_not_keep_the_process_from_ending() -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    try:
        assert worker.stdout.readline() == b"hangs\n"
        worker.terminate()
        out, _ = worker.communicate(timeout=120)
        assert (out, worker.returncode) == (b"ended\n", 0)
    finally:
        worker.kill()


def test_there_are_no_more_threads_than_allowed_and_a_free_one_is_used_again() -> None:
    threads, names, gate = HandlerThreads(3, "t"), set[str](), threading.Event()

    def job() -> None:
        names.add(threading.current_thread().name)
        gate.wait(120)

    futures = [threads.submit(job) for _ in range(10)]
    gate.set()
    done, left = wait(futures, 120)
    assert len(done) == 10
    assert not left
    assert len(names) == 3
    threads.close()


def test_what_a_job_raises_is_raised_and_the_thread_goes_on() -> None:
    threads = HandlerThreads(1, "t")
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(120)
    assert threads.submit(lambda: 5).result(120) == 5
    threads.close()
