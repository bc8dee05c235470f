"""The collector's settings: read once at start, checked as a whole."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from collector.journal import JournalLimits
from collector.options import IGNORED, OPTIONS
from storage.layout import OWNER_KINDS, SessionRef, is_ray_node_id
from storage.program.options import OptionError, load

Role = Literal["Head", "Worker"]

MEGABYTE = 1024 * 1024
DATA_DIR_NAME = ".history-collector"
SMALLEST_FILE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Settings:
    """What the collector was told. Times in seconds, sizes in bytes."""

    role: Role
    cluster: str
    namespace: str
    owner_kind: str
    owner_name: str
    pod_ip: str
    ray_node_id: str
    events_address: str
    events_port: int
    metrics_address: str
    metrics_port: int
    tmp_root: Path
    data_dir: Path
    dashboard_url: str
    node_list_url: str
    """The dashboard that is asked for the node id, on the head's address."""
    additional_endpoints: tuple[str, ...]
    """Of the dashboard, kept besides those that are always kept."""
    collect_events: bool
    collect_logs: bool
    ray_gone_after_s: float
    limits: JournalLimits
    quarantine_max_bytes: int
    grace_s: float
    log_level: str
    log_format: str
    ignored: tuple[str, ...]
    """Options that were given and do nothing here."""
    storage: Mapping[str, Any]
    """What `storage.settings.open_backend` wants."""

    @property
    def is_head(self) -> bool:
        """Whether this is the head's collector, which alone takes snapshots and ends sessions."""
        return self.role == "Head"

    @property
    def events_are_open(self) -> bool:
        """Whether other machines can reach the events port."""
        return self.collect_events and not ipaddress.ip_address(self.events_address).is_loopback

    def ref(self, session: str) -> SessionRef:
        """The session of this cluster with this name."""
        return SessionRef(self.namespace, self.cluster, session, self.owner_kind, self.owner_name)


def read_settings(argv: Sequence[str], env: Mapping[str, str]) -> Settings:
    """Make settings of flags and environment; flags win. Raises `OptionError`, one line."""
    values = load(OPTIONS, argv=argv, env=env)
    _check_owner(values)
    if not (values["enable_event_collector"] or values["enable_log_collector"]):
        raise OptionError(
            "--enable-event-collector=false and --enable-log-collector=false: nothing is left to "
            "collect; leave one of them on"
        )
    node_id = values["ray_node_id"].lower()
    if node_id and not is_ray_node_id(node_id):
        raise OptionError(f"--ray-node-id={node_id}: must be 56 hex digits")
    _check_addresses(values)
    return _settings(values, node_id)


def _settings(values: dict[str, Any], node_id: str) -> Settings:
    tmp_root = Path(values["ray_tmp_dir"])
    data_dir = Path(values["data_dir"]) if values["data_dir"] else tmp_root / DATA_DIR_NAME
    return Settings(
        role=values["role"],
        cluster=values["ray_cluster_name"],
        namespace=values["ray_cluster_namespace"],
        owner_kind=values["owner_kind"],
        owner_name=values["owner_name"],
        pod_ip=values["pod_ip"],
        ray_node_id=node_id,
        events_address=values["events_address"],
        events_port=values["events_port"],
        metrics_address=values["metrics_address"],
        metrics_port=values["metrics_port"],
        tmp_root=tmp_root,
        data_dir=data_dir,
        dashboard_url=_dashboard_url(values),
        node_list_url=_node_list_url(values),
        additional_endpoints=values["additional_endpoints"],
        collect_events=values["enable_event_collector"],
        collect_logs=values["enable_log_collector"],
        ray_gone_after_s=_positive(values, "ray_gone_after"),
        limits=_limits(values),
        quarantine_max_bytes=values["quarantine_max_size"],
        grace_s=_positive(values, "grace_period"),
        log_level=values["log_level"],
        log_format=values["log_format"],
        ignored=tuple(name for name in IGNORED if values[name.replace("-", "_")] is not None),
        storage=values,
    )


def _check_owner(values: dict[str, Any]) -> None:
    """As KubeRay checks it: both or neither, and only what may own a cluster."""
    kind, name = values["owner_kind"], values["owner_name"]
    if bool(kind) != bool(name):
        given, other = ("owner-kind", "owner-name") if kind else ("owner-name", "owner-kind")
        raise OptionError(f"--{given} without --{other}: give both or neither")
    if kind and kind not in OWNER_KINDS:
        raise OptionError(f"--owner-kind={kind}: must be one of {', '.join(OWNER_KINDS)}")


def _check_addresses(values: dict[str, Any]) -> None:
    for name in ("events_address", "metrics_address"):
        flag = name.replace("_", "-")
        try:
            ipaddress.ip_address(values[name])
        except ValueError as error:
            raise OptionError(
                f"--{flag}={values[name]}: must be an IP address such as 127.0.0.1"
            ) from error
    events = (values["events_address"], values["events_port"])
    if events[1] and events == (values["metrics_address"], values["metrics_port"]):
        raise OptionError(
            f"--events-port={events[1]} and --metrics-port={events[1]} are the same; the events "
            "port serves the metrics too, give the other one another number"
        )


def _limits(values: dict[str, Any]) -> JournalLimits:
    file_bytes = _either(values, "event_max_file_size", "event_max_file_size_mb")
    if file_bytes < SMALLEST_FILE_BYTES:
        raise OptionError(
            f"--event-max-file-size={file_bytes}: must be 4Ki or more; each file is an object"
        )
    return JournalLimits(
        rotation_interval_s=_positive(values, "event_rotation_interval"),
        max_segment_bytes=file_bytes,
        cap_bytes=_either(values, "event_max_disk", "event_max_disk_mb"),
        reserve_bytes=values["disk_reserve"],
    )


def _either(values: dict[str, Any], name: str, megabytes: str) -> int:
    """Ours, or KubeRay's whole megabytes. Both is a contradiction, unless ours is the default."""
    ours: int = values[name]
    if values[megabytes] is None:
        return ours
    theirs = int(values[megabytes]) * MEGABYTE
    option = next(option for option in OPTIONS if option.name == name.replace("_", "-"))
    if ours not in (theirs, option.parse(option.default or "0")):
        flags = f"--{name.replace('_', '-')} and --{megabytes.replace('_', '-')}"
        raise OptionError(f"{flags} contradict each other; give one of them")
    return theirs


def _positive(values: dict[str, Any], name: str) -> float:
    value = float(values[name])
    if value <= 0:
        raise OptionError(f"--{name.replace('_', '-')}: must be more than 0")
    return value


def _dashboard_url(values: dict[str, Any]) -> str:
    return _url("ray-dashboard-address", values["ray_dashboard_address"])


def _node_list_url(values: dict[str, Any]) -> str:
    """`FQ_RAY_IP` as KubeRay reads it: host, host:port, or either with a scheme."""
    address = values["fq_ray_ip"]
    if not address:
        return _dashboard_url(values)
    url = _url("fq-ray-ip", address)
    return url if urlsplit(url).port else f"{url}:{values['ray_dashboard_port']}"


def _url(flag: str, address: str) -> str:
    url = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        good = good and not (parts.query or parts.fragment) and url.isprintable() and " " not in url
    except ValueError:
        good = False
    if not good:
        raise OptionError(f"--{flag}={address}: must be an address such as http://localhost:8265")
    return url.rstrip("/")
