"""`sequitur sites`: several sites, each with its own broker, linked by forwarding."""
