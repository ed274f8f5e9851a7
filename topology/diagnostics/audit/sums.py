"""What an audit found, summed up over the partitions of a source and of a view."""

from collections.abc import Iterable, Mapping

from topology.declaration.source import Source
from topology.diagnostics.audit.report_parts import SourceReport, ViewReport
from topology.diagnostics.audit.snapshot import AuditSnapshot
from topology.diagnostics.audit.view_partition import ViewPartition


def source_report(
    source: Source, snapshot: AuditSnapshot, partitions: Mapping[str, int]
) -> SourceReport:
    """What became of a source's messages. partitions: topic → how many partitions it has."""
    report = SourceReport(source.name)
    for topic in source.topics:
        for number in range(partitions.get(topic, 0)):
            place = topic, number
            taken, position = snapshot.taken(place), snapshot.position(place)
            report.read += taken.read
            report.malformed += taken.malformed
            report.unknown += taken.unknown
            report.behind += max(0, snapshot.ends.get(place, position) - position)
            report.behind += snapshot.held.get(place, 0)
    if not source.keyed:
        for number in range(partitions.get(source.by_stream, 0)):
            taken = snapshot.taken((source.by_stream, number))
            report.malformed += taken.malformed
            report.unknown += taken.unknown
    report.events = report.read - report.malformed - report.unknown
    return report


def view_report(
    name: str, partitions: Iterable[ViewPartition], snapshot: AuditSnapshot
) -> ViewReport:
    """What became of a view's events."""
    report = ViewReport(name)
    for part in partitions:
        tally, end = part.tally, snapshot.ends.get(part.place, part.end)
        report.counted += tally.counted
        report.found += tally.found
        report.streams += len(part.rows.streams)
        report.behind += max(0, end - part.end) + snapshot.held.get(part.place, 0)
        report.halted = report.halted or part.rows.positions.halted
        report.silent += tally.silent
        report.repeats += part.records.outputs.repeats
        report.unsure |= tally.unsure
        report.hashes.update(part.records.outputs.chains)
    return report
