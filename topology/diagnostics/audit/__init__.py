"""Proving that nothing vanished: an audit of all topics of a topology, without I/O."""

from topology.diagnostics.audit.audit import Audit
from topology.diagnostics.audit.compare import Difference, differences, saved
from topology.diagnostics.audit.contents import Contents
from topology.diagnostics.audit.finding import Place, Violation
from topology.diagnostics.audit.report import Report, SourceReport, ViewReport
from topology.diagnostics.audit.snapshot import Cut

__all__ = [
    "Audit",
    "Contents",
    "Cut",
    "Difference",
    "Place",
    "Report",
    "SourceReport",
    "ViewReport",
    "Violation",
    "differences",
    "saved",
]
