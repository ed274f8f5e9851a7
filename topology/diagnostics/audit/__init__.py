"""Proving that nothing vanished: an audit of all topics of a topology, without I/O."""

from topology.diagnostics.audit.audit import Audit
from topology.diagnostics.audit.compare import Difference, differences, saved, saved_views
from topology.diagnostics.audit.contents import ContentsCheck
from topology.diagnostics.audit.finding import Place, Violation
from topology.diagnostics.audit.report import AuditReport
from topology.diagnostics.audit.report_parts import SourceReport, ViewReport
from topology.diagnostics.audit.snapshot import AuditSnapshot

__all__ = [
    "Audit",
    "AuditReport",
    "AuditSnapshot",
    "ContentsCheck",
    "Difference",
    "Place",
    "SourceReport",
    "ViewReport",
    "Violation",
    "differences",
    "saved",
    "saved_views",
]
