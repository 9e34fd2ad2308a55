"""The command line: parse, call one Workspace method, render."""
