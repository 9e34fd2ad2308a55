from __future__ import annotations

from pathlib import Path

import pytest

from knobledger.errors import BadConfig, Unknown
from knobledger.hosts.config import Config
from knobledger.hosts.sections import CompletionHealth, HttpHealth, MetricHealth, seconds
from knobledger.knobs.occurrence import Dialect

FULL = """\
[workspace]
timezone = "Europe/Berlin"
approval = "signed"
allowed_signers = "allowed_signers"
mode = "plan"
backup_dir = "/var/backups/knobledger"
[secrets]
add = ["MY_*"]
keep = ["PUBLIC_TOKEN"]
[hosts.gpu1]
address = "127.0.0.1"
port = 2222
user = "root"
identity_file = "keys/id_ed25519"
known_hosts = "keys/known_hosts"
transport = "fabric"
sudo = false
[hosts.gpu1.services.prefill]
script = "/root/serve_prefill.sh"
approval = "confirm"
[hosts.gpu1.services.decode]
script = "/root/serve_decode.sh"
files = { env = "/etc/dsv4/decode.env", unit = "/etc/systemd/system/dsv4-decode.service" }
unit = "dsv4-decode.service"
health = [{ http = "http://127.0.0.1:30001/health", within = "5m" }, { metric = "m", above = 1 }]
metrics = "http://127.0.0.1:30001/metrics"
after = ["prefill"]
stable = "10s"
log = "/var/log/decode.log"
backup_dir = "/srv/b"
[hosts.gpu2]
transport = "local"
approval = "two-person"
backup_dir = ".b"
[hosts.gpu2.services.decode]
script = "/root/serve_decode.sh"
dialect = "sh"
files = { box = { path = "/etc/box.env", dialect = "env-docker" }, plain = "/etc/x.env" }
start = "start it"
stop = "stop it"
pid = "pgrep it"
health = [{ completion = "http://x/v1/completions" }, { tcp = "127.0.0.1:1" }, { command = "true" }]
after = ["gpu1/decode"]
[hosts.gpu2.services.side]
files = { env = "/etc/side.env" }
[groups.dsv4]
services = ["gpu1/prefill", "gpu*/decode"]
approval = "two-person"
"""


@pytest.fixture
def config() -> Config:
    return Config.parse(FULL, Path("/work"))


def test_everything_of_the_contract(config: Config) -> None:
    assert config.workspace.timezone == "Europe/Berlin"
    assert config.workspace.mode == "plan"
    assert config.allowed_signers == Path("/work/allowed_signers")
    assert (config.secrets.add, config.secrets.keep) == (("MY_*",), ("PUBLIC_TOKEN",))
    gpu1 = config.hosts["gpu1"].under(config.root)
    assert gpu1.identity_file == Path("/work/keys/id_ed25519")
    assert gpu1.known_hosts == Path("/work/keys/known_hosts")
    assert (gpu1.address, gpu1.port, gpu1.user, gpu1.sudo) == ("127.0.0.1", 2222, "root", False)
    assert config.host("gpu2").address == "gpu2"
    decode = config.service("gpu1/decode")
    assert decode.health[0] == HttpHealth(http="http://127.0.0.1:30001/health", within=300.0)
    assert decode.health[1] == MetricHealth(metric="m", above=1)
    assert (decode.after, decode.stable_s, decode.log) == (("gpu1/prefill",), 10.0, "/var/log/decode.log")
    other = config.service("gpu2/decode")
    assert (other.start, other.stop, other.pid) == ("start it", "stop it", "pgrep it")
    assert isinstance(other.health[0], CompletionHealth)
    assert other.after == ("gpu1/decode",)


@pytest.mark.parametrize(
    ("name", "path", "dialect", "backup_dir", "approval"),
    [
        ("gpu1/prefill", "/root/serve_prefill.sh", Dialect.BASH, "/var/backups/knobledger", "confirm"),
        ("gpu1/decode", "/root/serve_decode.sh", Dialect.BASH, "/srv/b", "two-person"),
        ("gpu1/decode:env", "/etc/dsv4/decode.env", Dialect.ENV_SYSTEMD, "/srv/b", "two-person"),
        ("gpu1/decode:unit", "/etc/systemd/system/dsv4-decode.service", Dialect.UNIT, "/srv/b", "two-person"),
        ("gpu2/decode", "/root/serve_decode.sh", Dialect.SH, ".b", "two-person"),
        ("gpu2/decode:box", "/etc/box.env", Dialect.ENV_DOCKER, ".b", "two-person"),
        ("gpu2/decode:plain", "/etc/x.env", Dialect.ENV, ".b", "two-person"),
        ("gpu2/side:env", "/etc/side.env", Dialect.ENV, ".b", "two-person"),
    ],
)
def test_targets(
    config: Config, name: str, path: str, dialect: Dialect, backup_dir: str, approval: str
) -> None:
    found = config.target(name)
    assert (found.name, found.path, found.dialect) == (name, path, dialect)
    assert (found.backup_dir, found.approval) == (backup_dir, approval)
    assert name == f"{found.host}/{found.service}" + ("" if found.key == "script" else f":{found.key}")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["gpu1/decode:script"], ["gpu1/decode"]),
        (["gpu*/decode"], ["gpu1/decode", "gpu2/decode"]),
        (["gpu*/decode:*"], ["gpu1/decode:env", "gpu1/decode:unit", "gpu2/decode:box", "gpu2/decode:plain"]),
        (["dsv4"], ["gpu1/prefill", "gpu1/decode", "gpu2/decode"]),
        (["gpu2/decode", "dsv4", "gpu2/decode"], ["gpu2/decode", "gpu1/prefill", "gpu1/decode"]),
        (["gpu2"], ["gpu2/decode"]),
    ],
)
def test_names_groups_and_globs(config: Config, names: list[str], found: list[str]) -> None:
    assert [target.name for target in config.targets(names)] == found


def test_all_targets(config: Config) -> None:
    assert len(config.targets()) == 8


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpu1/decod", "gpu1/decode"),
        ("gpu1/decode:environ", "gpu1/decode:env"),
        ("gpu1/prefill:env", "gpu1/prefill"),
        ("gpu3*/decode", "gpu2/decode"),
        ("dsv", "dsv4"),
        ("nothing like it", None),
    ],
)
def test_unknown_targets_name_the_nearest(config: Config, name: str, near: str | None) -> None:
    with pytest.raises(Unknown) as caught:
        config.targets([name])
    assert repr(name) in caught.value.message
    assert near is None or repr(near) in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("after =", "aftr =", "unknown key 'hosts.gpu1.services.decode.aftr'; did you mean 'after'?"),
        ("sudo =", "sudoo =", "unknown key 'hosts.gpu1.sudoo'; did you mean 'sudo'?"),
        ("timezone", "timezon", "unknown key 'workspace.timezon'; did you mean 'timezone'?"),
        ("[secrets]", "[secretz]", "unknown key 'secretz'; did you mean 'secrets'?"),
        (
            "[workspace]",
            'timezone = "UTC"\n[workspace]',
            "unknown key 'timezone'; it belongs under [workspace]",
        ),
        (
            "within",
            "withn",
            "unknown key 'hosts.gpu1.services.decode.health.0.withn'; did you mean 'within'?",
        ),
        (
            "[groups.dsv4]\nservices",
            "[groups.dsv4]\nservice",
            "unknown key 'groups.dsv4.service'; did you mean 'services'?",
        ),
        ('"5m"', '"5 parsecs"', "hosts.gpu1.services.decode.health.0.within: '5 parsecs' is no duration"),
        ("metric = ", "gauge = ", "health.1: a health entry needs exactly one of http, tcp"),
        (", above = 1", "", "needs above = N or below = N"),
        ('"fabric"', '"fabrik"', "'fabric', 'openssh' or 'local', not 'fabrik'"),
        ("port = 2222", "port = 222222", "hosts.gpu1.port: "),
        ('["prefill"]', '["prefil"]', "hosts.gpu1.services.decode.after: no service 'prefil'"),
        (
            '"gpu1/prefill"',
            '"gpu1/prefil"',
            "groups.dsv4.services: no service 'gpu1/prefil'; did you mean 'gpu1/prefill'?",
        ),
        (
            'script = "/root/serve_prefill.sh"',
            'script = "serve.sh"',
            "'serve.sh' must be an absolute path on the host",
        ),
        (
            'script = "/root/serve_prefill.sh"',
            "",
            "hosts.gpu1.services.prefill: a service needs a script, or files",
        ),
        ("[hosts.gpu2]", '[hosts."gpu/2"]', "hosts.toml"),
        ('start = "start it"', 'unit = "u"\nstart = "s"', "a unit, or start/stop/pid commands, not both"),
        ('approval = "confirm"', 'approval = "confirm"\nafter = ["decode"]', "after goes round in a circle"),
        ("[hosts.gpu1]", "[hosts.gpu1", "hosts.toml, line 10: "),
        ("[hosts.gpu2]", "[hosts.gpu1", "line 31: ']' is missing at the end of the table's name"),
        ("[hosts.gpu2]", "[hosts.gpu1]", "line 31: cannot declare [hosts.gpu1] twice"),
        ("[secrets]", "[workspace]", "line 7: cannot declare [workspace] twice"),
        ("Europe/Berlin", "Mars", "workspace.timezone: no time zone is called 'Mars'; "),
        ("Europe/Berlin", "europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Europe/Berlin", "Europe", "workspace.timezone: no time zone is called 'Europe'"),
        ("Europe/Berlin", "../x", "workspace.timezone: no time zone is called '../x'"),
        ("Europe/Berlin", "", "write it like 'Europe/Berlin' or 'UTC'"),
        ("port = 2222", "port = ", "hosts.toml, line 12: "),
        ("port = 2222", "port = 2222\nport = 1", "hosts.toml, line 13: "),
    ],
)
def test_mistakes_are_named_with_their_place(old: str, new: str, message: str) -> None:
    assert old in FULL
    with pytest.raises(BadConfig) as caught:
        Config.parse(FULL.replace(old, new), Path("/work"))
    assert message in caught.value.message
    assert caught.value.exit_code == 1


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        Config.load(tmp_path)
    assert "knob init" in caught.value.hint
    (tmp_path / "hosts.toml").write_bytes(b"[workspace]\n# caf\xe9\n")
    with pytest.raises(BadConfig) as caught:
        Config.load(tmp_path)
    assert caught.value.message.startswith("hosts.toml, line 2: byte e9 is no UTF-8")
    assert caught.value.hint == "edit hosts.toml at line 2; save it as UTF-8"


def test_the_example_of_the_repository_is_valid() -> None:
    root = Path(__file__).parents[2]
    assert Config.load(root).targets() == ()
    lines = (root / "hosts.toml").read_text().splitlines()
    # Settings are commented with "#" alone, prose with "# ".
    everything = "\n".join(
        line[1:] if line.startswith("#") and line[1:2] not in ("", " ") else line for line in lines
    )
    config = Config.parse(everything, root)
    assert [target.name for target in config.targets(["dsv4"])] == [
        "gpu1/prefill",
        "gpu1/decode",
        "gpu1/router",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("10s", 10), ("5m", 300), ("1h30m", 5400), ("500ms", 0.5), (7, 7), (0.5, 0.5), ("1d", 86400)],
)
def test_durations(text: object, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", "5 parsecs", "-5s", -1, True, None, "m5", float("inf")])
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        seconds(text)
