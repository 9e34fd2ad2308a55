"""Events about who may approve."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import Digest


class SignersTrusted(Event):
    """The allowed_signers file and the policies as they hold from now on.

    The first one is believed; each later one carries a signature by somebody whom the one before allowed.
    """

    kind: Literal["signers_trusted"] = "signers_trusted"
    digest: Digest
    """of the file"""
    content: str
    """the file: public keys only"""
    policies: str
    """the policies of hosts.toml, as canonical JSON"""
    previous: Digest | None = None
    """the digest of the file before"""
    signature: str = ""
    """armoured, in the namespace `knobledger-signers`; empty for the first"""
    principal: str = ""
    """who signed, by the file before"""
