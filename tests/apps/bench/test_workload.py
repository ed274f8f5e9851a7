from collections import Counter, defaultdict

import orjson

from bench.workload import Workload, body, rounds

WORK = Workload(20_000, streams=250)


def test_the_same_seed_gives_the_same_messages_and_another_others() -> None:
    assert Workload(300, streams=10).messages == Workload(300, streams=10).messages
    assert Workload(300, streams=10).messages != Workload(300, streams=10, seed=8).messages


def test_every_event_is_there_and_some_come_twice() -> None:
    counts = Counter(value for _, value in WORK.messages)
    assert len(counts) == 20_000
    assert set(counts.values()) == {1, 2}
    assert 0.04 < sum(count == 2 for count in counts.values()) / 20_000 < 0.06


def test_each_stream_is_numbered_from_one_to_its_end_and_is_its_key() -> None:
    sequences = defaultdict(set)
    for key, value in WORK.messages:
        event = orjson.loads(value)
        assert key == b"%d" % event["stream"]
        sequences[str(event["stream"])].add(event["seq"])
    assert {stream: set(range(1, end + 1)) for stream, end in WORK.ends.items()} == sequences
    assert sum(WORK.ends.values()) == 20_000


def test_a_share_comes_late_by_no_more_than_it_should() -> None:
    last, late, furthest = dict[bytes, int](), 0, 0
    for key, value in dict.fromkeys(WORK.messages):
        sequence = orjson.loads(value)["seq"]
        late += sequence < last.get(key, 0)
        furthest = max(furthest, last.get(key, 0) - sequence)
        last[key] = max(sequence, last.get(key, 0))
    assert 0.03 < late / 20_000 < 0.1
    assert 2 < furthest < 20  # 2 events' time, and a buffer of 64 has room to spare


def test_events_are_as_large_as_those_of_the_other_peers() -> None:
    assert orjson.loads(body(7, 3, 120)) == {
        "stream": 7,
        "seq": 3,
        "type": "OrderPaid",
        "amount": 12.5,
        "note": "x" * 120,
    }
    assert WORK.messages[0][1] in {body(s, 1, 120) for s in range(250)}


def test_rounds_go_through_all_streams_before_the_next_sequence() -> None:
    numbers = [(int(key), orjson.loads(value)["seq"]) for key, value in rounds(2, range(2, 4))]
    assert numbers == [(0, 2), (1, 2), (0, 3), (1, 3)]
