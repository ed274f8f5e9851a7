"""Proving that nothing vanished: an audit of all topics of a topology, without I/O."""

from topology.audit.audit import Audit
from topology.audit.compare import Difference, differences, saved
from topology.audit.contents import Contents
from topology.audit.cut import Cut
from topology.audit.finding import Place, Violation
from topology.audit.report import Report, SourceReport, ViewReport

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
