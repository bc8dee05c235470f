"""Settings from file, environment and flags."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from certs.settings import Settings
from certs.settings_sources import SettingsError, read_settings, rows

REQUIRED = ["--namespace=ns", "--service=hooks", "--secret=hooks-tls", "--configurations=one,two"]


def test_the_required_ones_are_enough() -> None:
    """The rest has defaults that suit the chart."""
    settings = read_settings(REQUIRED, {})
    assert settings.configurations == ("one", "two")
    assert settings.names == {"hooks.ns.svc", "hooks.ns.svc.cluster.local"}
    assert settings.lease_name == "hooks-certs"
    assert settings.policy.leaf_life == timedelta(days=14)
    assert settings.policy.authority_life == timedelta(days=365)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """As in the other programs."""
    file = tmp_path / "certs.yaml"
    file.write_text(
        "namespace: ns\nservice: hooks\nsecret: hooks-tls\nconfigurations: [one]\n"
        "leafDays: 3\ncaDays: 100\npublishSeconds: 20\n"
    )
    env = {"CERTS_CONFIG": str(file), "CERTS_LEAF_DAYS": "4", "CERTS_CA_DAYS": "200", "PATH": "x"}
    settings = read_settings(["--leaf-days", "5"], env)
    assert (settings.leaf_days, settings.ca_days, settings.publish_s) == (5, 200, 20)


def test_every_setting_may_be_given_in_each_way(tmp_path: Path) -> None:
    """With its default, which is the same then."""
    for row in rows():
        if not row.default_text:
            continue
        file = tmp_path / "one.yaml"
        file.write_text(f"{row.name}: {row.default_text}\n")
        for argv, env in (
            ([f"--{row.flag}={row.default_text}"], {}),
            ([], {row.env: row.default_text}),
            ([f"--config={file}"], {}),
        ):
            assert read_settings([*REQUIRED, *argv], env) == read_settings(REQUIRED, {})


def test_every_setting_has_a_meaning() -> None:
    """For help and docs; and names that are its own."""
    assert all(row.meaning.endswith(".") for row in rows())
    names = [name for row in rows() for name in (row.name, row.env)]
    assert len(names) == len(set(names)) == 2 * len(Settings.__struct_fields__)


def test_a_switch_may_stand_alone() -> None:
    """`--create-secret`."""
    assert read_settings([*REQUIRED, "--create-secret"], {}).create_secret
    assert not read_settings([*REQUIRED, "--create-secret=false"], {}).create_secret


def test_what_kubernetes_adds_for_a_service_is_no_setting() -> None:
    """A Service called `certs` puts such names into every container."""
    env = {"CERTS_SERVICE_HOST": "10.0.0.1", "CERTS_PORT": "tcp://10.0.0.1:443", "CERTS_SECRET": ""}
    assert read_settings(REQUIRED, env) == read_settings(REQUIRED, {})


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        ([], {}, "namespace: not set; give --namespace=VALUE or set it in the file"),
        (REQUIRED[:3], {}, "configurations: not set"),
        ([*REQUIRED, "--leaf-day=3"], {}, "--leaf-day: unknown option; did you mean leaf-days?"),
        ([*REQUIRED, "--leaf-days=31"], {}, "--leaf-days=31: Expected `int` <= 30"),
        ([*REQUIRED, "--leaf-days=soon"], {}, "--leaf-days=soon: Expected `int`"),
        ([*REQUIRED, "--leaf-days"], {}, "--leaf-days: needs a value, as --leaf-days=VALUE"),
        ([*REQUIRED, "now"], {}, "now: unexpected argument; options begin with --"),
        ([*REQUIRED, "-x"], {}, "-x: unexpected argument"),
        ([*REQUIRED, "--service=A_B"], {}, "--service=A_B: Expected `str` matching regex"),
        (REQUIRED, {"CERTS_LEAFDAYS": "3"}, "CERTS_LEAFDAYS: unknown setting; did you mean"),
        (REQUIRED, {"CERTS_CA_DAYS": "1"}, "CERTS_CA_DAYS=1: Expected `int` >= 90"),
        ([*REQUIRED, "--config=/nowhere"], {}, "/nowhere: [Errno 2] No such file"),
        ([*REQUIRED, "--check-every-s=9"], {}, "--check-every-s: unknown option; did you mean"),
        ([*REQUIRED, "--check-every-seconds=11"], {}, "checkEverySeconds: 11 is more than a third"),
        ([*REQUIRED, "--log-level=loud"], {}, "--log-level=loud: Expected `str` matching"),
    ],
)
def test_a_wrong_setting_is_one_line(argv: list[str], env: dict[str, str], said: str) -> None:
    """What, where it was given, and what to do."""
    with pytest.raises(SettingsError) as refused:
        read_settings(argv, env)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leafDay: 3", "leafDay: unknown setting; did you mean leafDays?"),
        ("leafDays: 40", "leafDays: Expected `int` <= 30"),
        ("leafDays: '3'", "leafDays: Expected `int`, got `str`"),
        ("configurations: one", "configurations: Expected `array`, got `str`"),
        ("- a", "not a map of settings"),
        ("a: [", "not YAML: "),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """With the file's name."""
    file = tmp_path / "certs.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        read_settings([*REQUIRED, f"--config={file}"], {})
    assert str(refused.value).startswith(f"{file}: {said}")
    assert "\n" not in str(refused.value)


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    """A ConfigMap that somebody emptied."""
    file = tmp_path / "certs.yaml"
    file.write_text("")
    assert read_settings([*REQUIRED, f"--config={file}"], {}) == read_settings(REQUIRED, {})
