"""describe(): a topology as data, as text, as a diagram."""

import json
import re

from topology import Delete, Event, Inspector, Table, Topology, contiguous, header, key, skip


def departures(event: Event) -> list[Delete]:
    return []


def flights() -> Topology:
    topology = Topology("flights")
    inspector = Inspector(stream="tail", sequence="number", kind="kind")
    movements = topology.source("movements", inspector=inspector, sequence=contiguous(0, 2))
    keyed = topology.source(
        "gates", inspector=Inspector(key(), header("n")), keyed=True, partitions=12
    )
    topology.view(
        "departure_board",
        of=movements,
        handler=departures,
        accepts={"OUT", "IN"},
        buffer=16,
        gap=skip(after=2.5),
        tables=[Table("departure_board", {"flight": int}, {"origin": str})],
    )
    topology.view("usage", of=keyed, handler=lambda event, state: None)
    return topology


def test_the_description_is_data_first() -> None:
    description = flights().describe()

    assert description.name == "flights"
    movements, gates = description.sources
    assert (movements.topics, movements.by_stream) == (
        ("movements",),
        "flights.movements.by-stream",
    )
    assert (gates.keyed, gates.by_stream, gates.partitions) == (True, "gates", 12)
    board, usage = description.views
    assert (board.source, board.handler, board.accepts) == (
        "movements",
        "departures",
        ("IN", "OUT"),
    )
    assert (board.buffer, board.output) == (16, "flights.departure_board")
    assert (board.stateful, usage.stateful, usage.accepts) == (False, True, None)
    assert board.tables == ("departure_board",)
    assert set(description.side_topics) == {
        "flights.malformed",
        "flights.unknown",
        "flights.late",
        "flights.errors",
        "flights.parked",
        "flights.dead",
        "flights.audit",
    }


def test_the_description_is_json() -> None:
    found = json.loads(json.dumps(flights().describe().as_dict()))
    assert found["views"][0]["buffer"] == 16
    assert found["sources"][0]["topics"] == ["movements"]


def test_the_text_says_everything_a_reader_asks() -> None:
    assert str(flights().describe()) == (
        "Topology flights\n"
        "  Source movements: movements (re-keyed to flights.movements.by-stream, 4 partitions)\n"
        "    Inspector(stream=tail, sequence=number, kind=kind), contiguous(start=0, step=2)\n"
        "    View departure_board: departures of IN, OUT\n"
        "      buffer 16, gap skip(after=2.5), full spill(), "
        "late late_topic(), error advance()\n"
        "      → flights.departure_board → tables departure_board\n"
        "  Source gates: gates (keyed by stream, 12 partitions)\n"
        "    Inspector(stream=RecordKey(), sequence=Header(name='n')), "
        "contiguous(start=1, step=1)\n"
        "    View usage: <lambda> of all kinds, with state\n"
        "      buffer 64, gap wait(), full spill(), "
        "late late_topic(), error advance()\n"
        "      → flights.usage\n"
        "  Side topics: flights.malformed, flights.unknown, flights.late, flights.errors, "
        "flights.parked, flights.dead, flights.audit"
    )


def test_large_numbers_are_written_out() -> None:
    topology = Topology("shop")
    sequence = contiguous(start=1_234_567_891, step=1)
    source = topology.source("orders", inspector=Inspector("id", "n"), sequence=sequence)
    topology.view("board", of=source, handler=departures, gap=skip(after=86_400 * 14))

    assert "contiguous(start=1234567891, step=1)" in str(topology.describe())
    assert re.search(r"skip\(after=1209600(\.0)?\)", str(topology.describe()))


def test_the_diagram_leads_from_topics_through_views_to_tables() -> None:
    lines = flights().describe().mermaid().splitlines()

    assert lines[0] == "flowchart LR"
    text = "\n".join(lines)
    for part in (
        't_movements[/"movements"/]',
        "t_movements -- inspect --> by_flights_movements_by_stream",
        "by_flights_movements_by_stream --> v_departure_board --> o_flights_departure_board",
        'o_flights_departure_board --> r_departure_board[("departure_board")]',
        "t_gates --> v_usage --> o_flights_usage",
    ):
        assert part in text
    assert len(lines) == len(set(lines))


def test_the_diagram_says_at_a_views_arrows_what_it_is_given() -> None:
    said = {"departure_board": ("2 s behind", "10.0/s")}
    diagram = flights().describe().mermaid(said)
    assert '-- "2 s behind" --> v_departure_board -- "10.0/s" --> o_flights' in diagram
    assert "t_gates --> v_usage --> o_flights_usage" in diagram


def test_names_that_differ_only_in_their_marks_are_different_nodes() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"))
    names = ["a.b", "a-b", "ab"]
    for name in names:
        topology.view(name, of=source, handler=departures)

    diagram = topology.describe().mermaid()
    nodes = {re.search(rf'(\w+)\["{re.escape(name)}<br', diagram) for name in names}
    assert len({node and node[1] for node in nodes}) == 3


def test_a_topology_without_anything_can_be_described() -> None:
    description = Topology("empty").describe()
    assert (description.sources, description.views) == ((), ())
    assert str(description).startswith("Topology empty")
    assert description.mermaid() == "flowchart LR"
