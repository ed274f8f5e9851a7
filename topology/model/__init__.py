"""Values without behaviour: events, records, row changes, tables, counts, errors, names."""
