"""Commands of `faust -A app` that change something."""
