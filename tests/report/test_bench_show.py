"""`bench show`: what is in it, and how it looks at a terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

from ab_runs import arms, run

from knobledger.comparison import Comparison, compare
from knobledger.names import EventId
from knobledger.report.benches import BenchReport
from knobledger.report.paper import Plain
from knobledger.report.renderings import render

INCIDENT = {"C48": (684.7, 680.6), "C64": (719.5, 811.7), "C80": (833.0, 842.7), "C96": (799.3, 844.6)}


def incident() -> Comparison:
    runs = [
        made
        for label, (before, after) in INCIDENT.items()
        for made in arms([before], [after], label=label, load=float(label[1:]))
    ]
    return compare(runs)


def shown(comparison: Comparison) -> str:
    page = io.StringIO()
    render(BenchReport(EventId("c1ed" * 16), "gpu1/decode  TARGET_CTAS 256 → 512", comparison), Plain(page))
    return page.getvalue()


def test_the_incident_at_a_terminal() -> None:
    assert (
        shown(incident())
        == """\
c1edc1ed  gpu1/decode  TARGET_CTAS 256 → 512
output_throughput, tok/s, higher is better; margin 2 %
C48  baseline  684.7  n=1   ███████████████████▌
     variant   680.6  n=1   ███████████████████▍        -0.6 %  not enough data
C64  baseline  719.5  n=1   ████████████████████▌
     variant   811.7  n=1   ███████████████████████▏   +12.8 %  not enough data
C80  baseline  833.0  n=1   ███████████████████████▋
     variant   842.7  n=1   ████████████████████████    +1.2 %  not enough data
C96  baseline  799.3  n=1   ██████████████████████▊
     variant   844.6  n=1   ████████████████████████    +5.7 %  not enough data
dip: baseline falls from C80 833.0 to C96 799.3; the variant only rises
C48, C64, C80, C96: 1 start of the baseline and 1 of the variant: a call takes 3 of each
"""
    )


def test_the_json_has_the_keys_of_a_gain_and_more() -> None:
    report = BenchReport(EventId("c1ed" * 16), "", incident()).to_json()
    assert json.loads(json.dumps(report)) == report
    assert [cell["at"] for cell in report["cells"]] == list(INCIDENT)
    c64 = report["cells"][1]
    assert {
        key: c64[key] for key in ("baseline", "variant", "change_pct", "n_baseline", "n_variant", "call")
    } == {
        "baseline": 719.5,
        "variant": 811.7,
        "change_pct": 12.81,
        "n_baseline": 1,
        "n_variant": 1,
        "call": "not enough data",
    }
    assert c64["interval_pct"] is None
    assert report["dips"][0]["repaired"] is True


def test_nothing_is_hidden() -> None:
    runs = arms([100, 101, 99, 500], [110, 111, 109])
    differing = [one.but(arguments=(("burst", "1" if one.arm == "baseline" else "2"),)) for one in runs]
    comparison = compare(differing, discarded={runs[3].digest: "another job ran"}, live=[])
    text = shown(comparison)
    assert "+10.0 %  gain, 95 % +7.6 … +12.4 %" in text
    assert "C64: also differs: burst: 1 against 2" in text
    assert f"discarded: C64 baseline, baseline.md:{runs[3].line}: another job ran" in text
    assert "warning: C64 variant" in text


def test_no_run_names_the_next_command() -> None:
    assert "knob bench import FILE --change CHANGE --arm baseline" in shown(compare([]))


def test_one_arm_alone() -> None:
    text = shown(compare([run("baseline", 700.0)]))
    assert "variant       –  n=0" in text
    assert (
        BenchReport(EventId("0" * 64), "", compare([run("baseline", 700.0)])).to_json()["cells"][0]["variant"]
        is None
    )


def test_too_few_starts_load_no_scipy() -> None:
    script = """
import sys
from test_bench_show import incident, shown
assert "not enough data" in shown(incident())
assert not {"scipy", "numpy"} & sys.modules.keys()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
