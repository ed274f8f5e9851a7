"""Who may do a job just now: the locks that outlive a connection, side by side.

- A *lease* (`lease.py`) is one name, held in numbered turns, in the database that the job is about.
  Each transaction that writes checks the turn's number, so a holder that was replaced is refused.
- A *claim* (`claim.py`) is several names, all or none, in a read store: a table, or files where
  Spark writes. Its owner learns that it was replaced when it renews the claim.
- A *fencing token* (`stores/view_state/fencing_token.py`) is in the table that a worker writes, and
  is compared before each read and write: it needs no clock.

A lease and a claim in SQL are of one shape, a line with an owner and an end. Neither carries the
other: a claim has no turns whose number could fence a write, and a lease has one name and no files.
"""
