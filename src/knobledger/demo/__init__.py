"""The incident, replayed on an embedded SSH server."""
