"""A client agent: several rounds, each waiting for the one before. Exit code 1 if a round gets no answer."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from urllib.request import Request, urlopen


def main() -> None:
    """Prints one line: how many rounds passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--timeout", type=float, default=0.7, help="seconds per round")
    arguments = parser.parse_args()
    client = uuid.uuid4().hex
    for number in range(1, arguments.rounds + 1):
        request = Request(
            f"{arguments.url}/generate", data=b"{}", method="POST", headers={"X-Client": client}
        )
        begun = time.monotonic()
        try:
            with urlopen(request, timeout=arguments.timeout) as answer:
                answer.read()
        except OSError as error:
            waited = time.monotonic() - begun
            print(f"round {number} of {arguments.rounds} hangs: no answer in {waited:.1f} s ({error})")
            sys.exit(1)
    print(f"{arguments.rounds} of {arguments.rounds} rounds pass")


if __name__ == "__main__":
    main()
