"""Every step of a change, and every fault in it: generated, run against the lab, and printed as a table."""
