"""knobledger: a ledger for the knobs of remote model servers."""
