"""The command line: options, exit statuses, signals."""
