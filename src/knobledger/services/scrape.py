"""One look at a service's Prometheus page, through the host's own network, and the series that were asked for.

The text format is parsed by prometheus_client.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from knobledger.errors import NoMetrics, Refused, Unknown
from knobledger.hosts.host import Host
from knobledger.services.dialled import NoAnswer, fetch

Kind = Literal["gauge", "counter"]


class Wanted(Struct, frozen=True):
    """A metric by the name of its samples, and the labels that its series must have."""

    metric: str
    labels: tuple[tuple[str, str], ...] = ()


class Found(Struct, frozen=True):
    """The series of one look: label text (`engine="0",tp_rank="1"`) to value."""

    name: str
    kind: Kind
    series: Mapping[str, float]


def look(host: Host, url: str, wanted: Wanted, *, timeout_s: float) -> Found:
    """Fetches the page and finds the series. Raises `NoMetrics`, `Unknown` (see `series_of`), `Unreachable`."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise Refused(f"{url!r} is no http address", hint='metrics = "http://127.0.0.1:30001/metrics"')
    try:
        page = fetch(host, url, timeout_s=timeout_s)
    except NoAnswer as error:
        raise NoMetrics(
            f"{url} on {host.name!r} gives no metrics: {error}",
            hint="`knob live` shows what runs",
            source=url,
        ) from error
    if page.status != 200:
        hint = "SGLang has a metrics page only with --enable-metrics" if page.status == 404 else ""
        raise NoMetrics(
            f"{url} on {host.name!r} gives no metrics: status {page.status}", hint=hint, source=url
        )
    return series_of(page.text, wanted, url)


def series_of(page: str, wanted: Wanted, source: str) -> Found:
    """The series of a page that were asked for.

    Raises `Unknown` where the page has no such metric (naming the nearest), or no such labels (naming those that it
    has); `NoMetrics` where the page is no metrics page.
    """
    names: dict[str, None] = {}
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, Kind] = {}
    others: list[Mapping[str, str]] = []
    try:
        for name, kind, labels, value in _samples(page):
            names.setdefault(name)
            if name not in (wanted.metric, f"{wanted.metric}_total"):
                continue
            if all(labels.get(key) == text for key, text in wanted.labels):
                text = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
                series = found.setdefault(name, {})
                series[text] = series.get(text, 0.0) + value
                kinds[name] = kind
            else:
                others.append(labels)
    except ValueError as error:
        raise NoMetrics(f"{source!r} is no page of metrics: {error}", source=source) from error
    if not found:
        raise _no_labels(wanted, others) if others else _no_metric(wanted.metric, list(names), source)
    name = min(found, key=len)  # the name as it was given, before the one with _total
    return Found(name, kinds[name], found[name])


def _samples(page: str) -> Iterator[tuple[str, Kind, Mapping[str, str], float]]:
    """Every sample of a page, with how its value is to be read."""
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.endswith("_created") and not family.name.endswith("_created"):
                continue
            yield sample.name, _kind(family.type, sample.name), sample.labels, sample.value


def _kind(type_: str, name: str) -> Kind:
    if type_ == "counter":
        return "counter"
    if type_ in ("histogram", "summary"):
        return "counter" if name.endswith(("_bucket", "_count", "_sum")) else "gauge"
    if type_ in ("unknown", "untyped"):
        return "counter" if name.endswith("_total") else "gauge"
    return "gauge"


def _no_metric(name: str, names: Sequence[str], source: str) -> Unknown:
    bare = name.rpartition(":")[2].lower()
    near = [n for n in names if bare in n.lower()]
    near += [n for n in difflib.get_close_matches(name, names, n=5, cutoff=0.5) if n not in near]
    tails = {n.rpartition(":")[2].lower(): n for n in names}
    near += [
        tails[tail]
        for tail in difflib.get_close_matches(bare, tails, n=5, cutoff=0.6)
        if tails[tail] not in near
    ]
    told = f"; the nearest: {', '.join(near[:5])}" if near else ""
    return Unknown(
        f"no metric {name!r} at {source}{told}",
        hint=f"`curl {source}` on the host shows all {len(names)}",
        value=name,
        nearest=near[:5],
    )


def _no_labels(wanted: Wanted, others: Sequence[Mapping[str, str]]) -> Unknown:
    asked = ", ".join(f"{key}={text}" for key, text in wanted.labels)
    have: dict[str, None] = {}
    for labels in others:
        have.update(dict.fromkeys(f"{key}={labels[key]}" for key in sorted(labels)))
    return Unknown(
        f"{wanted.metric!r} has no series with {asked}",
        hint=f"it has {', '.join(list(have)[:12]) or 'no labels'}",
        value=asked,
        nearest=list(have)[:12],
    )
