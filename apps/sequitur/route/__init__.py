"""The rules of routing on the command line: checked, explained, tried, compared."""
