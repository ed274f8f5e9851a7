"""Who may do a job just now: leases and claims."""
