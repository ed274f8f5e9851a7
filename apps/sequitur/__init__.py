"""The programs that users run: `sequitur --help`."""
