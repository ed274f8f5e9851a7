"""Transports: one file each, behind `Inbound` and `Outbound`."""
