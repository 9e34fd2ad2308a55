"""Hosts: hosts.toml, the Host protocol and its transports, the transaction."""
