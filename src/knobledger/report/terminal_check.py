"""Hosts side by side, for a person: a table where it fits, else a block for each."""

from __future__ import annotations

import shutil

from knobledger.report.paper import Paper
from knobledger.report.terminal import line, render
from knobledger.report.watching import Checked, HostCheck

_COLUMNS = ("host", "", "by", "ms", "shell", "digests", "lock", "stat", "as", "systemd", "clock", "free")


@render.register
def _(report: Checked, page: Paper) -> None:
    if not report.hosts:
        line(page, "hosts.toml names no host yet")
        return
    rows = [_cells(host) for host in report.hosts]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    if sum(widths) + 2 * len(widths) <= shutil.get_terminal_size().columns:
        line(page, _row(_COLUMNS, widths), "bold")
        for host, row in zip(report.hosts, rows, strict=True):
            line(page, _row(row, widths), _style(host))
            _problems(host, page)
        return
    for host, row in zip(report.hosts, rows, strict=True):
        line(page, f"{host.name}   {row[1]}", _style(host) or "bold")
        if not host.error:
            told = [f"{name} {cell}" for name, cell in zip(_COLUMNS[2:], row[2:], strict=True) if cell != "-"]
            for i in range(0, len(told), 3):
                line(page, f"  {', '.join(told[i : i + 3])}", "dim")
        _problems(host, page)


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _style(host: HostCheck) -> str:
    return "red" if host.error else "yellow" if host.problems else ""


def _problems(host: HostCheck, page: Paper) -> None:
    for text in (host.error,) if host.error else host.problems:
        line(page, f"  {text}", _style(host))
    if host.hint:
        line(page, f"  hint: {host.hint}")


def _cells(host: HostCheck) -> tuple[str, ...]:
    state = "down" if host.error else "can't" if host.problems else "ok"
    free = min((f.free for f in host.folders if f.free is not None), default=None)
    cells = (
        host.name,
        state,
        host.transport,
        "" if host.connect_s is None else f"{1000 * host.connect_s:.0f}",
        host.shell,
        host.digest_tool,
        host.lock,
        host.stat,
        host.user + (" by sudo" if host.sudo and host.root else ""),
        host.systemd,
        "" if host.clock_offset_s is None else f"{host.clock_offset_s:+.2f} s",
        "" if free is None else _size(free),
    )
    return tuple(cell or "-" for cell in cells)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
