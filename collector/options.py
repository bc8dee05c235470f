"""The table of the collector's options: ours, and every name that KubeRay's collectors had.

`collector.settings` makes a checked `Settings` of it. Options that do nothing here are
accepted, so that the manifests of KubeRay's releases and of the GKE guide start unchanged;
each that is given makes one log line.
"""

from __future__ import annotations

from collector.option_values import ip_address_or_none, request_paths
from storage.program.logs import LOG_OPTIONS
from storage.program.option_values import (
    boolean,
    dns1123,
    duration_s,
    integer,
    port,
    size_bytes,
    text,
)
from storage.program.options import Option
from storage.settings import STORAGE_OPTIONS

IDENTITY_OPTIONS: tuple[Option, ...] = (
    Option(
        name="role",
        default="Worker",
        help="Whether the pod runs Ray's head or a worker.",
        parse=text,
        env=("RAY_ROLE",),
        choices=("Head", "Worker"),
    ),
    Option(
        name="ray-cluster-name",
        default=None,
        help="Name of the RayCluster.",
        parse=dns1123,
        env=("RAY_CLUSTER_NAME",),
        required=True,
    ),
    Option(
        name="ray-cluster-namespace",
        default="default",
        help="Namespace of the RayCluster. `ray-cluster-id` is what KubeRay 1.6 called it.",
        parse=dns1123,
        env=("RAY_CLUSTER_NAMESPACE",),
        aliases=("ray-cluster-id",),
    ),
    Option(
        name="owner-kind",
        default="",
        help="Kind of what owns the RayCluster; empty for a cluster of its own.",
        parse=lambda value: text(value).lower(),
        env=("OWNER_KIND",),
    ),
    Option(
        name="owner-name",
        default="",
        help="Name of what owns the RayCluster; goes with `owner-kind`.",
        parse=lambda value: dns1123(value) if value.strip() else "",
        env=("OWNER_NAME",),
    ),
    Option(
        name="pod-ip",
        default="",
        help="Address of this pod. Only used to find the node id when Ray's files do not tell it.",
        parse=ip_address_or_none,
        env=("POD_IP",),
    ),
    Option(
        name="ray-node-id",
        default="",
        help="The raylet's node id in hex. Only for several raylets in one session directory; "
        "otherwise it is found.",
        parse=text,
        env=("RAY_NODE_ID",),
    ),
)

LISTEN_OPTIONS: tuple[Option, ...] = (
    Option(
        name="events-address",
        default="127.0.0.1",
        help="Address to take events on. Ray posts to localhost.",
        parse=text,
        env=("EVENTS_ADDRESS",),
    ),
    Option(
        name="events-port",
        default="8084",
        help="Port to take events on (`POST /v1/events`); 0 lets the system choose.",
        parse=port,
        env=("EVENTS_PORT",),
    ),
    Option(
        name="metrics-address",
        default="127.0.0.1",
        help="Address of `/healthz`, `/readyz` and `/metrics`; `0.0.0.0` for the kubelet's probes.",
        parse=text,
        env=("METRICS_ADDRESS",),
    ),
    Option(
        name="metrics-port",
        default="8085",
        help="Port of `/healthz`, `/readyz` and `/metrics`, which the events port serves too; "
        "0 lets the system choose.",
        parse=port,
        env=("METRICS_PORT",),
    ),
)

RAY_OPTIONS: tuple[Option, ...] = (
    Option(
        name="ray-tmp-dir",
        default="/tmp/ray",  # noqa: S108 - Ray's own default
        help="Ray's temporary root, shared with the Ray container.",
        parse=text,
        env=("RAY_TMP_ROOT",),
    ),
    Option(
        name="ray-dashboard-address",
        default="http://localhost:8265",
        help="Ray's dashboard, which the head's collector takes snapshots of.",
        parse=text,
        env=("RAY_DASHBOARD_ADDRESS",),
    ),
    Option(
        name="fq-ray-ip",
        default="",
        help="Host (and port) of the head's dashboard. A worker finds its node id there when "
        "Ray's files do not tell it.",
        parse=text,
        env=("FQ_RAY_IP",),
    ),
    Option(
        name="ray-dashboard-port",
        default="8265",
        help="Port for `fq-ray-ip` when it names none.",
        parse=port,
        env=("RAY_DASHBOARD_PORT",),
    ),
    Option(
        name="enable-event-collector",
        default="true",
        help="Take events.",
        parse=boolean,
        env=("ENABLE_EVENT_COLLECTOR",),
    ),
    Option(
        name="enable-log-collector",
        default="true",
        help="Follow logs and take snapshots of the dashboard.",
        parse=boolean,
        env=("ENABLE_LOG_COLLECTOR",),
    ),
    Option(
        name="additional-endpoints",
        default="",
        help="Paths of the dashboard, with query and separated by commas, that the head's "
        "collector keeps besides what the dashboard's pages need; stored as KubeRay's are too.",
        parse=request_paths,
        env=("RAY_COLLECTOR_ADDITIONAL_ENDPOINTS",),
    ),
    Option(
        name="ray-gone-after",
        default="30s",
        help="How long the raylet may be gone before its session is finished as ended.",
        parse=duration_s,
    ),
)

DISK_OPTIONS: tuple[Option, ...] = (
    Option(
        name="data-dir",
        default=None,
        help="Where events wait for storage. Default: `.history-collector` in `ray-tmp-dir`, "
        "which outlives a restart of the container. One collector per directory.",
        parse=text,
        env=("RAY_COLLECTOR_EVENT_DATA_DIR",),
        aliases=("event-data-dir",),
    ),
    Option(
        name="event-rotation-interval",
        default="5m",
        help="How long events wait at most before their file becomes a final object.",
        parse=duration_s,
        env=("RAY_COLLECTOR_EVENT_ROTATION_INTERVAL",),
    ),
    Option(
        name="event-max-file-size",
        default="64Mi",
        help="Event files become final objects at this size.",
        parse=size_bytes,
        env=("RAY_COLLECTOR_EVENT_MAX_FILE_SIZE",),
    ),
    Option(
        name="event-max-file-size-mb",
        default=None,
        help="KubeRay's form of `event-max-file-size`.",
        parse=integer(1),
        env=("RAY_COLLECTOR_EVENT_MAX_FILE_SIZE_MB",),
    ),
    Option(
        name="event-max-disk",
        default="2Gi",
        help="Above this much waiting data, shipping is pressed. Events are refused (503) only "
        "when the disk is full, since Ray drops what it cannot hand over.",
        parse=size_bytes,
        env=("RAY_COLLECTOR_EVENT_MAX_DISK",),
    ),
    Option(
        name="event-max-disk-mb",
        default=None,
        help="KubeRay's form of `event-max-disk`.",
        parse=integer(1),
        env=("RAY_COLLECTOR_EVENT_MAX_DISK_MB",),
    ),
    Option(
        name="disk-reserve",
        default="64Mi",
        help="The disk counts as full when less than this is free.",
        parse=size_bytes,
    ),
    Option(
        name="quarantine-max-size",
        default="64Mi",
        help="How much of events that cannot be filed is kept for inspection.",
        parse=size_bytes,
    ),
)

LIFE_OPTIONS: tuple[Option, ...] = (
    Option(
        name="grace-period",
        default="30s",
        help="Time from SIGTERM to SIGKILL (`terminationGracePeriodSeconds` of the pod).",
        parse=duration_s,
        env=("GRACE_PERIOD",),
    ),
    *LOG_OPTIONS,
)

IGNORED: dict[str, str] = {
    "push-interval": "logs are shipped as they grow, every few seconds",
    "log-batching": "log lines are shipped in blocks by size",
    "event-compression-enabled": "event files are always compressed",
    "poll-interval": "each dashboard endpoint is polled as often as its cost allows",
    "storage-backend-config-path": "the local backend has no configuration file",
    "rotated-log-scan-interval": "rotated logs are followed as they rotate",
}
"""KubeRay's options that do nothing here, and what happens instead."""

_IGNORED_ENV: dict[str, tuple[str, ...]] = {
    "push-interval": ("PUSH_INTERVAL",),
    "log-batching": ("LOG_BATCHING",),
    "event-compression-enabled": ("RAY_COLLECTOR_EVENT_COMPRESSION_ENABLED",),
    "poll-interval": ("RAY_COLLECTOR_POLL_INTERVAL",),
    "storage-backend-config-path": ("STORAGE_BACKEND_CONFIG_PATH",),
    "rotated-log-scan-interval": ("RAY_COLLECTOR_ROTATED_LOG_SCAN_INTERVAL",),
}

_IGNORED_ALIASES = {"storage-backend-config-path": ("runtime-class-config-path",)}

COMPATIBILITY_OPTIONS: tuple[Option, ...] = tuple(
    Option(
        name=name,
        default=None,
        help=f"Accepted for KubeRay's sake, does nothing: {instead}.",
        parse=boolean if name == "event-compression-enabled" else text,
        env=_IGNORED_ENV[name],
        aliases=_IGNORED_ALIASES.get(name, ()),
    )
    for name, instead in IGNORED.items()
)

OPTIONS: tuple[Option, ...] = (
    *IDENTITY_OPTIONS,
    *STORAGE_OPTIONS,
    *LISTEN_OPTIONS,
    *RAY_OPTIONS,
    *DISK_OPTIONS,
    *LIFE_OPTIONS,
    *COMPATIBILITY_OPTIONS,
)
"""Everything that the collector can be told. Dashboard credentials are environment only:
`RAY_AUTH_MODE`, `RAY_AUTH_TOKEN`, `RAY_AUTH_TOKEN_PATH`, `RAY_ENABLE_K8S_TOKEN_AUTH`."""
