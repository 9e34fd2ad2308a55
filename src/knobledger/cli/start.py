"""The entry point: what has to happen before the rest is imported, and after it is done."""

from __future__ import annotations

import gc
import os
import sys

from knobledger import ahead


def main() -> None:
    """Runs one command and exits with its code.

    A command lives for a second and makes few cycles: looking for them, and taking every module apart at the
    end, cost a third of its CPU time. Looking for pydantic's plugins, of which there are none, costs 0.04 s.
    """
    gc.set_threshold(200_000, 50, 50)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    words = sys.argv[1:]
    ahead.begin(words, os.environ)
    try:
        from knobledger.cli.main import run

        code = run(words)
    finally:
        ahead.drop()
    gc.freeze()
    sys.exit(code)
