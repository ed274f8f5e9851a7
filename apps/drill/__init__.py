"""`scripts/drill`: three sites on this machine, one of which is lost in mid-traffic and returns."""
