"""Health gates: what a service must show before the next one begins. One probe each; `chain.py` repeats them.

All of them reach the service from its own host: HTTP and TCP over `Host.dial`, commands by `Host.run`.
Requests and answers are those of SGLang's `/generate` and of the OpenAI API that vLLM and SGLang serve.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, assert_never
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from knobledger.hosts.config import Service
from knobledger.hosts.host import Host
from knobledger.hosts.sections import (
    CommandHealth,
    CompletionHealth,
    Health,
    HttpHealth,
    MetricHealth,
    TcpHealth,
)
from knobledger.services.dialled import NoAnswer, Page, address_of, connects, fetch

GateKind = Literal["http", "tcp", "command", "metric", "completion"]
PROMPT = "The capital of France is"
"""most models go on with a word, not with the end"""
PROBE_S = 30.0
"""the longest that one probe may take"""
_LOCAL = {"127.0.0.1", "localhost", "::1", "0.0.0.0"}
_SHOWN = 120
"""characters of a body that a message shows"""


class Probe(Struct, frozen=True):
    """One answer of a gate."""

    ok: bool
    detail: str


def kind_of(gate: Health) -> GateKind:
    """Its kind, as in hosts.toml."""
    match gate:
        case HttpHealth():
            return "http"
        case TcpHealth():
            return "tcp"
        case CommandHealth():
            return "command"
        case MetricHealth():
            return "metric"
        case CompletionHealth():
            return "completion"
        case _:
            assert_never(gate)


def asked_of(gate: Health) -> str:
    """What it asks: the address, command or metric."""
    match gate:
        case HttpHealth(http=url):
            return url
        case TcpHealth(tcp=address):
            return address
        case CommandHealth(command=line):
            return line
        case MetricHealth(metric=name, above=above, below=below):
            bounds = [
                f"above {above:g}" if above is not None else "",
                f"below {below:g}" if below is not None else "",
            ]
            return " ".join([name, " and ".join(bound for bound in bounds if bound)])
        case CompletionHealth(completion=url):
            return url
        case _:
            assert_never(gate)


def port_of(gate: Health) -> int | None:
    """The port of the host itself whose answer stands for this very service, so that it matters who gives it.

    None for gates that may well be answered by another process (a completion through the router).
    """
    match gate:
        case HttpHealth(http=url, through=False):
            address, port = address_of(url)
        case TcpHealth(tcp=text, through=False):
            address, port = _tcp(text)
        case _:
            return None
    return port if address in _LOCAL else None


def probe(host: Host, service: Service, gate: Health, *, timeout_s: float) -> Probe:
    """Asks once. Raises `Unreachable` and the like where the host itself can't be asked."""
    wait = max(0.5, min(timeout_s, PROBE_S))
    try:
        match gate:
            case HttpHealth():
                return _http(gate, fetch(host, gate.http, timeout_s=wait))
            case TcpHealth():
                connects(host, *_tcp(gate.tcp), timeout_s=wait)
                return Probe(True, "accepts connections")
            case CommandHealth():
                return _command(host, gate, wait)
            case MetricHealth():
                return _metric(host, service, gate, wait)
            case CompletionHealth():
                return _completion(host, gate, wait)
            case _:
                assert_never(gate)
    except NoAnswer as error:
        return Probe(False, str(error))


def _tcp(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


def _http(gate: HttpHealth, page: Page) -> Probe:
    if page.status != gate.status:
        return Probe(
            False, f"status {page.status} instead of {gate.status}: {_start(page.text)}".rstrip(": ")
        )
    if gate.body is not None and not re.search(gate.body, page.text):
        return Probe(
            False, f"status {page.status}, but {gate.body!r} is not in the body: {_start(page.text)}"
        )
    return Probe(True, f"status {page.status}" + (f", body matches {gate.body!r}" if gate.body else ""))


def _command(host: Host, gate: CommandHealth, wait: float) -> Probe:
    # A probe that hangs must not hang the chain, nor lose its exit status: the host's own `timeout` ends it.
    line = 'if command -v timeout >/dev/null; then exec timeout "$1" /bin/sh -c "$0"; else exec /bin/sh -c "$0"; fi'
    argv = ("/bin/sh", "-c", line, gate.command, str(max(1, round(wait))))
    done = host.run(argv, timeout_s=wait + 30)
    if done.status == 0:
        return Probe(True, "status 0")
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    return Probe(False, f"status {done.status}: {_start(said)}".rstrip(": "))


def _metric(host: Host, service: Service, gate: MetricHealth, wait: float) -> Probe:
    if service.metrics is None:
        return Probe(False, f"hosts.toml has no metrics = URL for {service.full_name}")
    page = fetch(host, service.metrics, timeout_s=wait)
    if page.status != 200:
        return Probe(False, f"{service.metrics} gives status {page.status}")
    values = _samples(page.text, gate.metric)
    if not values:
        return Probe(False, f"no metric {gate.metric!r} at {service.metrics}")
    low, high = min(values), max(values)
    shown = f"{low:g}" if low == high else f"{low:g} to {high:g} in {len(values)} series"
    above = gate.above is None or low > gate.above
    below = gate.below is None or high < gate.below
    return Probe(above and below, shown)


def _samples(text: str, name: str) -> list[float]:
    """Every sample of a name, whatever its labels: one for each rank. Raises `NoAnswer` for a page that is none."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        ]
    except ValueError as error:
        raise NoAnswer(f"the metrics page can't be read: {error}") from None


def _completion(host: Host, gate: CompletionHealth, wait: float) -> Probe:
    parts = urlsplit(gate.completion)
    url = gate.completion if parts.path.strip("/") else urlunsplit(parts._replace(path="/v1/completions"))
    page = fetch(host, url, timeout_s=wait, json_body=_request(host, gate, url, wait))
    if page.status != 200:
        return Probe(False, f"status {page.status}: {_start(page.text)}".rstrip(": "))
    try:
        text = _completed(json.loads(page.body))
    except (ValueError, LookupError, TypeError):
        return Probe(False, f"the answer is no completion: {_start(page.text)}")
    return Probe(bool(text), f"completed with {text!r}" if text else "the completion is empty")


def _request(host: Host, gate: CompletionHealth, url: str, wait: float) -> dict[str, Any]:
    path = urlsplit(url).path
    if path.endswith("/generate"):
        return {"text": PROMPT, "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
    request: dict[str, Any] = {
        "model": gate.model or _model(host, url, wait),
        "max_tokens": 1,
        "temperature": 0,
    }
    if path.endswith("/chat/completions"):
        return request | {"messages": [{"role": "user", "content": PROMPT}]}
    return request | {"prompt": PROMPT}


def _model(host: Host, url: str, wait: float) -> str:
    """The first model that the server names. Raises `NoAnswer`."""
    parts = urlsplit(url)
    models = urlunsplit(parts._replace(path=parts.path.partition("/v1/")[0] + "/v1/models", query=""))
    page = fetch(host, models, timeout_s=wait)
    try:
        return str(json.loads(page.body)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise NoAnswer(f"{models} names no model (status {page.status})") from None


def _completed(answer: Any) -> str:
    """The new text of either API. Raises `LookupError` or `TypeError` where there is none."""
    if isinstance(answer, list):
        answer = answer[0]
    if "choices" not in answer:
        return str(answer["text"])
    choice = answer["choices"][0]
    if "message" in choice:
        message = choice["message"]
        return str(message.get("content") or message.get("reasoning_content") or "")
    return str(choice["text"])


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
