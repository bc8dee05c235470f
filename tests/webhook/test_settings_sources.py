"""Settings from file, environment and flags."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from webhook.settings import AccountMode, EnvVar, Settings, SidecarMode
from webhook.settings_sources import SettingsError, read_settings
from webhook.settings_table import rows

IMAGE = "--collector-image=c:1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file."""
    return tmp_path / "webhook.yaml"


def test_flags_win_over_environment_over_file(file: Path) -> None:
    """And each leaves the others' neighbours alone."""
    file.write_text("collector: {image: file, mode: native}\nlisten: {threads: 3, port: 1}\n")
    env = {"WEBHOOK_LISTEN_THREADS": "4", "WEBHOOK_LISTEN_PORT": "2", "WEBHOOK_LOG_LEVEL": ""}
    settings = read_settings([f"--config={file}", "--listen-port", "3"], env)
    assert settings.collector.image == "file"
    assert settings.collector.mode is SidecarMode.NATIVE
    assert (settings.listen.threads, settings.listen.port) == (4, 3)
    assert settings.log_level == "info"
    assert read_settings([], {**env, "WEBHOOK_CONFIG": str(file)}).listen.threads == 4


def test_an_empty_file_is_all_defaults(file: Path) -> None:
    """As an empty ConfigMap is."""
    file.write_text("# nothing\n")
    assert read_settings([f"--config={file}", IMAGE], {}) == read_settings([IMAGE], {})


def test_a_name_without_a_value_is_not_set(file: Path) -> None:
    """Templates leave such; only where null is a value it is one."""
    file.write_text("collector: {image: a, volumes: , runAsUser: , env: null}\nlisten:\nrrsa:\n")
    settings = read_settings([f"--config={file}"], {})
    assert settings.collector.volumes == ()
    assert settings.collector.run_as_user is None
    assert settings.listen == Settings().listen


def test_every_setting_has_a_flag_a_name_and_a_meaning() -> None:
    """All different, and each default can be given in each way."""
    for names in ([r.flag for r in rows()], [r.env for r in rows()], [r.name for r in rows()]):
        assert len(names) == len(set(names))
    assert all(row.meaning for row in rows())
    flags = [f"--{row.flag}={row.default_text}" for row in rows() if row.default_text]
    env = {row.env: row.default_text for row in rows() if row.default_text}
    plain = read_settings([IMAGE], {})
    assert read_settings([*flags, IMAGE], {}) == plain
    assert read_settings([IMAGE], env) == plain


def test_all_settings_survive_a_file(file: Path) -> None:
    """What the chart writes is what is read."""
    document = msgspec.to_builtins(read_settings([IMAGE, "--collector-args=a,b"], {}))
    file.write_text(yaml.safe_dump(document))
    settings = read_settings([f"--config={file}"], {})
    assert msgspec.to_builtins(settings) == document
    assert settings.collector.args == ("a", "b")


def test_lists_and_maps_are_yaml() -> None:
    """Lists of texts may also be written with commas."""
    settings = read_settings(
        [
            IMAGE,
            "--scope-excluded-namespaces= a, b,",
            "--collector-args=[x, 'y,z']",
            "--collector-env=[{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]",
            "--service-account-labels={team: ml}",
            "--collector-run-as-user=null",
            "--rrsa-role-arn=1234",
            "--service-account-mode=fixed",
            "--service-account-name=history",
            "--service-account-replace-under-token-auth",
        ],
        {},
    )
    assert settings.scope.excluded_namespaces == ("a", "b")
    assert settings.collector.args == ("x", "y,z")
    value_from = {"fieldRef": {"fieldPath": "status.podIP"}}
    assert settings.collector.env == (EnvVar(name="A", value_from=value_from),)
    assert settings.service_account.labels == {"team": "ml"}
    assert settings.service_account.mode is AccountMode.FIXED
    assert settings.service_account.replace_under_token_auth is True
    assert settings.collector.run_as_user is None
    assert settings.rrsa.role_arn == "1234"


def test_a_service_called_webhook_is_no_setting() -> None:
    """Kubernetes puts its address into every container of the namespace."""
    env = {
        "WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "WEBHOOK_SERVICE_PORT": "443",
        "WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "WEBHOOK_PORT": "tcp://10.0.0.1:443",
        "WEBHOOK_PORT_443_TCP": "tcp://10.0.0.1:443",
        "WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
        "PATH": "/bin",
    }
    assert read_settings([IMAGE], env) == read_settings([IMAGE], {})


@pytest.mark.parametrize(
    ("argv", "env", "content", "said"),
    [
        ([], {}, "", "collector.image: not set"),
        ([IMAGE, "--nosuch=1"], {}, "", "--nosuch: unknown option"),
        ([IMAGE, "--collector-mod=x"], {}, "", "did you mean collector-mode?"),
        ([IMAGE, "extra"], {}, "", "extra: unexpected argument"),
        (["--collector-image"], {}, "", "needs a value"),
        ([IMAGE, "--collector-mode=big"], {}, "", "must be one of auto, native, classic"),
        ([IMAGE, "--listen-port=eighty"], {}, "", "--listen-port=eighty"),
        ([IMAGE, "--listen-port=70000"], {}, "", "<= 65535"),
        ([IMAGE, "--listen-health-port=9443"], {}, "", "port and healthPort are the same"),
        ([IMAGE, "--service-account-mode=fixed"], {}, "", "serviceAccount.name"),
        ([IMAGE, "--rrsa-enabled"], {}, "", "rrsa: enabled"),
        ([IMAGE, "--collector-env=[{nam: A}]"], {}, "", "--collector-env"),
        ([IMAGE, "--collector-resources-limits=[a"], {}, "", "not YAML"),
        ([IMAGE], {"WEBHOOK_LISTEN_PROT": "1"}, "", "did you mean WEBHOOK_LISTEN_PORT?"),
        ([IMAGE], {"WEBHOOK_LOG_LEVEL": "loud"}, "", "WEBHOOK_LOG_LEVEL=loud"),
        ([], {}, "collector: {imge: x}", "collector.imge: unknown setting; did you mean image?"),
        ([], {}, "colector: {image: x}", "did you mean collector?"),
        ([], {}, "collector: {image: 1.5}", "collector.image"),
        ([], {}, "collector: {image: a, image: b}", "given twice"),
        ([], {}, "collector: a", "collector"),
        ([], {}, "[1, 2]", "not a map"),
        ([], {}, "{", "not YAML"),
        ([], {}, "a: !!python/object:os.system {}", "not YAML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    argv: list[str], env: dict[str, str], content: str, said: str, file: Path
) -> None:
    """What, where, and what was perhaps meant."""
    if content:
        file.write_text(content)
        argv = [*argv, f"--config={file}"]
    with pytest.raises(SettingsError) as caught:
        read_settings(argv, env)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_reading_without_injecting_needs_no_image() -> None:
    """To explain a decision, none is put into a pod."""
    assert read_settings([], {}, to_inject=False) == Settings()
