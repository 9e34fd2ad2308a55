"""The entry point: what has to happen before the rest is imported, and after it is done."""

from __future__ import annotations

import gc
import os
import sys

# `signal` itself loads `enum` and more, and Ctrl-C may come meanwhile.
from _signal import SIG_IGN, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

_CODE = 130
"""of an interrupted command; its class in `errors` is not loaded yet"""


def main() -> None:
    """Runs one command and exits with its code.

    A command lives for a second and makes few cycles: looking for them, and taking every module apart at the
    end, cost a third of its CPU time. Looking for pydantic's plugins, of which there are none, costs 0.04 s.
    """
    if getsignal(SIGINT) is default_int_handler:  # not where Ctrl-C is ignored
        signal(SIGINT, _ends_calmly)
    gc.set_threshold(200_000, 50, 50)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    words = sys.argv[1:]
    from knobledger import ahead

    ahead.begin(words, os.environ)
    try:
        from knobledger.cli.main import run

        code = run(words)
    except KeyboardInterrupt:
        # While an error was being said, or the second one.
        print("knob: interrupted: `knob recover` tells what was done", file=sys.stderr)
        code = _CODE
    finally:
        signal(SIGINT, SIG_IGN)  # everything is done and said
        ahead.drop()
    gc.freeze()
    sys.exit(code)


def acts() -> None:
    """From here on the command itself may have written: it says what an interruption means."""
    if getsignal(SIGINT) is _ends_calmly:
        signal(SIGINT, default_int_handler)


def _ends_calmly(*_: object) -> None:
    """Ctrl-C while the program loads: an exception could rise anywhere in an import, and end as a traceback."""
    if "--json" in sys.argv:
        message = (
            '{"error": {"kind": "interrupted", "message": "interrupted; nothing was written", "hint": ""}}\n'
        )
        os.write(1, message.encode())
    else:
        os.write(2, b"knob: interrupted; nothing was written\n")
    os._exit(_CODE)
