"""The verbs of a workspace, a module for each kind of work; `workspace.py` puts them together."""
