"""The collector's settings: KubeRay's names, the GKE guide's line, contradictions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from collector.options import IGNORED, OPTIONS
from collector.settings import Settings, read_settings
from storage.program.options import OptionError

BASE = ("--ray-cluster-name=c1", "--storage-backend=local")

KUBERAY_FLAGS = {
    # v1.7 and master
    "role": "Head",
    "storage-backend": "local",
    "storage-backend-config-path": "/etc/config.json",
    "storage-root-dir": "log",
    "ray-cluster-name": "c1",
    "ray-cluster-namespace": "ml",
    "owner-kind": "RayJob",
    "owner-name": "train",
    "events-port": "8084",
    "push-interval": "1m",
    "log-batching": "1000",
    "enable-event-collector": "true",
    "enable-log-collector": "true",
    "ray-dashboard-address": "http://localhost:8265",
    "event-data-dir": "/tmp/ray/event-data",
    "event-rotation-interval": "5m",
    "event-max-file-size-mb": "100",
    "event-max-disk-mb": "200",
    "event-compression-enabled": "false",
}
KUBERAY_16_FLAGS = {
    "role": "Worker",
    "runtime-class-name": "local",
    "ray-cluster-name": "c1",
    "ray-cluster-id": "default",
    "ray-root-dir": "log",
    "log-batching": "1000",
    "events-port": "8080",
    "runtime-class-config-path": "/etc/config.json",
    "push-interval": "1m",
}
KUBERAY_ENV = {
    "RAY_ROLE": "head",
    "STORAGE_BACKEND": "local",
    "STORAGE_BACKEND_CONFIG_PATH": "/etc/config.json",
    "STORAGE_ROOT_DIR": "log",
    "RAY_CLUSTER_NAME": "c1",
    "RAY_CLUSTER_NAMESPACE": "ml",
    "OWNER_KIND": "rayservice",
    "OWNER_NAME": "serve",
    "EVENTS_PORT": "8084",
    "PUSH_INTERVAL": "1m",
    "LOG_BATCHING": "1000",
    "ENABLE_EVENT_COLLECTOR": "true",
    "ENABLE_LOG_COLLECTOR": "false",
    "RAY_DASHBOARD_ADDRESS": "http://localhost:8266",
    "RAY_COLLECTOR_EVENT_DATA_DIR": "/data",
    "RAY_COLLECTOR_EVENT_ROTATION_INTERVAL": "1m",
    "RAY_COLLECTOR_EVENT_MAX_FILE_SIZE_MB": "10",
    "RAY_COLLECTOR_EVENT_MAX_DISK_MB": "500",
    "RAY_COLLECTOR_EVENT_COMPRESSION_ENABLED": "true",
    "RAY_COLLECTOR_ADDITIONAL_ENDPOINTS": "/api/foo,/api/bar?x=1",
    "RAY_COLLECTOR_POLL_INTERVAL": "30s",
    "RAY_COLLECTOR_ROTATED_LOG_SCAN_INTERVAL": "30s",
    "RAY_TMP_ROOT": "/ray",
    "POD_IP": "10.0.0.7",
    "FQ_RAY_IP": "c1-head-svc.ml.svc.cluster.local",
    "RAY_DASHBOARD_PORT": "8266",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "secret",
    "RAY_ENABLE_K8S_TOKEN_AUTH": "false",
}


def settings(*argv: str, **env: str) -> Settings:
    return read_settings([*BASE, *argv], env)


@pytest.mark.parametrize("flags", [KUBERAY_FLAGS, KUBERAY_16_FLAGS])
def test_every_flag_of_kuberay_is_taken(flags: dict[str, str]) -> None:
    """Both released tables start unchanged, in both spellings of a flag."""
    for argv in (
        [f"--{name}={value}" for name, value in flags.items()],
        [
            part
            for name, value in flags.items()
            for part in (f"--{name}", value)
            if value not in {"true", "false"}
        ],
    ):
        read = read_settings(argv, {})
        assert read.cluster == "c1"
        assert read.storage["storage_root_dir"] == "log"


@pytest.mark.parametrize("name", [*KUBERAY_FLAGS, *KUBERAY_16_FLAGS])
def test_each_flag_of_kuberay_is_in_the_table(name: str) -> None:
    """One by one, so that a missing one names itself."""
    assert any(name in (option.name, *option.aliases) for option in OPTIONS)


def test_every_environment_name_of_kuberay_is_read() -> None:
    """Its values arrive where they belong."""
    read = read_settings([], KUBERAY_ENV)
    assert (read.role, read.cluster, read.namespace) == ("Head", "c1", "ml")
    assert (read.owner_kind, read.owner_name) == ("rayservice", "serve")
    assert (read.events_port, read.tmp_root, read.data_dir) == (8084, Path("/ray"), Path("/data"))
    assert (read.collect_events, read.collect_logs) == (True, False)
    assert read.dashboard_url == "http://localhost:8266"
    assert read.node_list_url == "http://c1-head-svc.ml.svc.cluster.local:8266"
    assert read.pod_ip == "10.0.0.7"
    assert read.limits.rotation_interval_s == 60
    assert read.limits.max_segment_bytes == 10 * 1024 * 1024
    assert read.limits.cap_bytes == 500 * 1024 * 1024
    assert read.additional_endpoints == ("/api/foo", "/api/bar?x=1")
    assert set(read.ignored) == set(IGNORED)
    credentials = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH"}
    known = {name for option in OPTIONS for name in option.env}
    assert set(KUBERAY_ENV) - credentials <= known


def test_the_line_of_the_gke_guide() -> None:
    """As printed there, with another backend."""
    read = read_settings(
        [
            "--role=Head",
            "--runtime-class-name=local",
            "--ray-cluster-name=RAY-JOB".lower(),
            "--ray-root-dir=log",
            "--events-port=8084",
        ],
        {"GCS_BUCKET": "bucket"},
    )
    assert read.is_head
    assert read.storage["storage_backend"] == "local"
    assert read.ref("session_2026-11-30_19-57-10_681566_45").cluster == "ray-job"


def test_defaults() -> None:
    """What a user gets without saying anything."""
    read = settings()
    assert read.role == "Worker"
    assert (read.events_address, read.events_port) == ("127.0.0.1", 8084)
    assert (read.metrics_address, read.metrics_port) == ("127.0.0.1", 8085)
    assert read.data_dir == Path("/tmp/ray/.history-collector")
    assert read.limits.cap_bytes == 2 * 1024**3
    assert read.limits.max_segment_bytes == 64 * 1024 * 1024
    assert read.grace_s == 30
    assert read.ignored == ()


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("--nonsense=1",), "--nonsense: unknown option"),
        (("--role=Boss",), "--role=Boss"),
        (("--ray-cluster-namespace=Not_DNS",), "--ray-cluster-namespace=Not_DNS"),
        (("--owner-kind=rayjob",), "--owner-kind without --owner-name"),
        (("--owner-name=x",), "--owner-name without --owner-kind"),
        (("--owner-kind=raycluster", "--owner-name=x"), "--owner-kind=raycluster"),
        (
            ("--enable-event-collector=false", "--enable-log-collector=false"),
            "nothing is left to collect",
        ),
        (("--ray-cluster-namespace=a", "--ray-cluster-id=b"), "contradict"),
        (("--storage-root-dir=a", "--ray-root-dir=b"), "contradict"),
        (("--event-max-disk=1Gi", "--event-max-disk-mb=5"), "contradict"),
        (("--events-port=70000",), "--events-port=70000"),
        (("--events-port=9000", "--metrics-port=9000"), "are the same"),
        (("--events-address=localhost",), "--events-address=localhost"),
        (("--grace-period=soon",), "--grace-period=soon"),
        (("--event-rotation-interval=0s",), "must be more than 0"),
        (("--event-rotation-interval=999999999999d",), "longer than 100 years"),
        (("--grace-period=0",), "must be more than 0"),
        (("--ray-gone-after=0s",), "--ray-gone-after: must be more than 0"),
        (("--event-max-file-size=0",), "must be 4Ki or more"),
        (("--event-max-file-size=1Qi",), "must be a size"),
        (("--pod-ip=head",), "must be an IP address"),
        (("--additional-endpoints=api/x",), "must be paths"),
        (("--ray-dashboard-address=http://a b:1",), "--ray-dashboard-address"),
        (("--ray-dashboard-address=http://a:1/?token=x",), "--ray-dashboard-address"),
        (("--ray-dashboard-address=ftp://x",), "--ray-dashboard-address=ftp://x"),
        (("--ray-dashboard-address=http://x:notaport",), "--ray-dashboard-address"),
        (("--ray-node-id=xyz",), "--ray-node-id=xyz"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(argv: tuple[str, ...], text: str) -> None:
    """What, where, and what to do."""
    with pytest.raises(OptionError) as caught:
        settings(*argv)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_same_value_under_two_names_is_no_contradiction() -> None:
    """Manifests often carry both."""
    read = settings("--storage-root-dir=log", "--ray-root-dir=log", "--event-max-disk-mb=2048")
    assert read.storage["storage_root_dir"] == "log"
    assert read.limits.cap_bytes == 2 * 1024**3


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "http://10.0.0.1:8265"),
        ("head:9000", "http://head:9000"),
        ("https://head", "https://head:8265"),
        ("https://head:443", "https://head:443"),
    ],
)
def test_the_heads_address_in_all_forms(address: str, expected: str) -> None:
    """As KubeRay reads `FQ_RAY_IP`."""
    assert settings(FQ_RAY_IP=address).node_list_url == expected


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "collector", *argv], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("--storage-backend=local",),
        (*BASE, "--unknown"),
        (*BASE,),
        ("--ray-cluster-name=c1", "--runtime-class-name=gcs"),
        ("--ray-cluster-name=c1", "--storage-backend=tape"),
    ],
)
def test_wrong_settings_end_with_status_2_and_one_line(argv: tuple[str, ...]) -> None:
    """Never a stack trace."""
    done = run(*argv)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("collector: error: ")
    assert done.stderr.count("\n") == 1


def test_help_lists_every_option() -> None:
    """With its environment names."""
    done = run("--help")
    assert done.returncode == 0
    for option in OPTIONS:
        assert f"--{option.name}" in done.stdout
    assert run("--version").stdout.startswith("collector ")


@pytest.mark.parametrize(
    ("arguments", "are_open"),
    [
        ((), False),
        (("--events-address=::1",), False),
        (("--events-address=0.0.0.0",), True),
        (("--events-address=0.0.0.0", "--enable-event-collector=false"), False),
    ],
)
def test_an_events_address_that_others_reach_is_noticed(
    arguments: tuple[str, ...], are_open: bool
) -> None:
    """The collector warns of it at its start: Ray's agents send no credentials."""
    assert settings(*arguments).events_are_open is are_open
