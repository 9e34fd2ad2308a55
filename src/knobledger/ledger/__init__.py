"""The ledger on disk: event files, snapshots, git, the SQL index."""
