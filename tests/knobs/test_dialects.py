"""Which dialect a file has."""

from __future__ import annotations

import pytest

from knobledger.knobs import Dialect, dialect_of


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("/root/serve.sh", b"#!/bin/bash\n", Dialect.BASH),
        ("/root/serve.sh", b"#!/usr/bin/env bash\n", Dialect.BASH),
        ("/root/serve.sh", b"#!/bin/sh\n", Dialect.SH),
        ("/root/serve", b"#!/usr/bin/env -S dash -e\n", Dialect.SH),
        ("/root/serve", b"\xef\xbb\xbf#!/bin/sh -e\r\n", Dialect.SH),
        ("/root/serve.sh", b"srv\n", Dialect.BASH),
        ("/etc/systemd/system/x.service", b"", Dialect.UNIT),
        ("/etc/systemd/system/x.socket", b"", Dialect.UNIT),
        ("/etc/systemd/system/x.service.d/10-env.conf", b"", Dialect.UNIT),
        ("/etc/nccl.conf", b"", Dialect.ENV_DOCKER),
        ("/etc/dsv4/decode.env", b"", Dialect.ENV),
        ("/etc/dsv4/.env", b"", Dialect.ENV),
    ],
)
def test_dialect_of(path: str, content: bytes, expected: Dialect) -> None:
    assert dialect_of(path, content) is expected
