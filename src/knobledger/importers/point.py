"""The operating point of a run: how hard the server was driven, as a label."""

from __future__ import annotations

from knobledger.measured import Number


def operating_point(concurrency: Number, rate: Number = None) -> tuple[str, Number]:
    """Label and load: `C64` where the concurrency is limited, else `R8` (requests per second), else `unbounded`.

    An empty label where neither is known.
    """
    if isinstance(concurrency, float):
        return f"C{concurrency:g}", concurrency
    if isinstance(rate, float):
        return f"R{rate:g}", rate
    return ("unbounded", "unbounded") if "unbounded" in (concurrency, rate) else ("", None)


def faults_of(completed: int | None, wanted: int | None, failed: int | None) -> tuple[str, ...]:
    """Why a run with these counts of requests may not be compared; empty if it may."""
    if failed:
        return (f"{failed} of {wanted or (completed or 0) + failed} requests failed",)
    if completed == 0:
        return ("no request completed",)
    if completed is not None and wanted is not None and completed < wanted:
        return (f"{wanted - completed} of {wanted} requests are missing",)
    return ()
