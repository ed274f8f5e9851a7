"""A module whose import fails."""

raise RuntimeError("the licence has run out")
