"""Makes chart/values.schema.json: `python -m tests.chart.schema`.

Types and names come from chart/values.yaml, so that an unknown value is refused; rules of the
values that go into the webhook's settings come from its own table; the rest stands here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from webhook.settings import Settings

CHART = Path(__file__).parents[2] / "chart"
SCHEMA = CHART / "values.schema.json"

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
TEXT_MAP: dict[str, Any] = {"type": "object", "additionalProperties": TEXT}
OBJECT: dict[str, Any] = {"type": "object"}
OBJECTS: dict[str, Any] = {"type": "array", "items": OBJECT}
ENV: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": TEXT, "value": TEXT, "valueFrom": OBJECT},
        "additionalProperties": False,
    },
}
QUANTITY: dict[str, Any] = {"type": "string", "pattern": r"^[0-9.]+([EPTGMk]i?|m)?$"}
RESOURCES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "requests": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
        "limits": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
        "claims": OBJECTS,
    },
    "additionalProperties": False,
}
PORT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 65535}
POSITIVE: dict[str, Any] = {"type": "integer", "minimum": 1}
LOG_LEVEL: dict[str, Any] = {"enum": ["debug", "info", "warning", "error"]}


def _choice(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


RULES: dict[str, dict[str, Any]] = {
    "commonLabels": TEXT_MAP,
    "commonAnnotations": TEXT_MAP,
    "global.imagePullSecrets": TEXTS,
    "images.*.pullPolicy": _choice("Always", "IfNotPresent", "Never"),
    "images.*.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "images.*.repository": {"type": "string", "minLength": 1},
    "storage.backend": _choice("local", "gcs", "oss", "s3", "azureblob"),
    "storage.local.mountPath": {"type": "string", "pattern": "^/.+"},
    "storage.local.claimNamespaces": TEXTS,
    "storage.local.size": QUANTITY,
    "storage.local.accessModes": {
        "type": "array",
        "minItems": 1,
        "items": _choice("ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"),
    },
    "storage.local.source": OBJECT,
    "storage.local.volume": OBJECT,
    "storage.extraEnv": ENV,
    "identity.rrsa": {"from": "Rrsa"},
    "injection.label": {
        "type": "string",
        "pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    },
    "injection.excludedNamespaces": TEXTS,
    "injection.failurePolicy": _choice("Ignore", "Fail"),
    "injection.timeoutSeconds": {"type": "integer", "minimum": 3, "maximum": 30},
    "injection.annotations": TEXT_MAP,
    "collector.resources": RESOURCES,
    "collector.imagePullSecrets": TEXTS,
    "collector.args": TEXTS,
    "collector.env": ENV,
    "*.serviceAccount.annotations": TEXT_MAP,
    "*.serviceAccount.labels": TEXT_MAP,
    "collector.serviceAccount.guardPrefix": {"type": "boolean"},
    "collector.serviceAccount": {"from": "ServiceAccount"},
    "collector": {"from": "Collector"},
    "*.replicas": {"type": "integer", "minimum": 0},
    "webhook.port": PORT,
    "webhook.healthPort": PORT,
    "webhook.threads": POSITIVE,
    "*.logLevel": LOG_LEVEL,
    "webhook.reportEverySeconds": {"type": "number", "minimum": 0},
    "*.resources": RESOURCES,
    "*.podAnnotations": TEXT_MAP,
    "*.podLabels": TEXT_MAP,
    "*.nodeSelector": TEXT_MAP,
    "*.tolerations": OBJECTS,
    "*.affinity": OBJECT,
    "*.topologySpreadConstraints": OBJECTS,
    "*.extraEnv": ENV,
    "*.extraArgs": TEXTS,
    "*.extraVolumes": OBJECTS,
    "*.extraVolumeMounts": OBJECTS,
    "*.podDisruptionBudget.minAvailable": {"type": ["integer", "string"]},
    "tls.mode": _choice("selfManaged", "certManager", "existingSecret"),
    "tls.leafDays": {"type": "integer", "minimum": 1, "maximum": 30},
    "tls.certManager.issuerRef": OBJECT,
    "server.port": PORT,
    "server.workers": POSITIVE,
    "server.threads": POSITIVE,
    "server.cacheSize": QUANTITY,
    "server.auth.mode": _choice("none"),
    "server.auth.oauth.callbackScheme": _choice("http", "https"),
    "server.auth.oauth.callbackServiceName": {"type": "string", "pattern": "^[^/]*$"},
    "server.service.type": _choice("ClusterIP", "NodePort", "LoadBalancer"),
    "server.service.port": PORT,
    "server.service.annotations": TEXT_MAP,
    "server.ingress.annotations": TEXT_MAP,
    "server.ingress.hosts": TEXTS,
    "server.ingress.tls": OBJECTS,
    "server.httpRoute.annotations": TEXT_MAP,
    "server.httpRoute.parentRefs": OBJECTS,
    "server.httpRoute.hostnames": TEXTS,
    "server.runAsUser": {"type": ["integer", "null"]},
    "server.networkPolicy.from": OBJECTS,
    "monitoring.*.labels": TEXT_MAP,
    "extraObjects": OBJECTS,
}
"""Rules beyond the type of the default, by path; `*` is one name. The first that fits wins."""


def made() -> dict[str, Any]:
    """The schema of the values as they stand."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = _object(values, "", _descriptions())
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    schema["title"] = "Values of ray-history-server"
    return schema


def _object(values: dict[str, Any], path: str, texts: dict[str, str]) -> dict[str, Any]:
    properties = {}
    for name, value in values.items():
        where = f"{path}.{name}".lstrip(".")
        properties[name] = _property(value, where, texts)
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _property(value: Any, path: str, texts: dict[str, str]) -> dict[str, Any]:
    rule = _rule(path)
    if rule is not None and "from" not in rule:
        found = dict(rule)
    elif isinstance(value, dict) and value:
        found = _object(value, path, texts)
        if rule is not None:
            found["properties"] |= _of_settings(rule["from"], found["properties"])
    else:
        found = {"type": _type(value, path)}
    if text := texts.get(path):
        found["description"] = text
    return found


def _rule(path: str) -> dict[str, Any] | None:
    for pattern, rule in RULES.items():
        if re.fullmatch(re.escape(pattern).replace(r"\*", r"[^.]+"), path):
            return rule
    return None


def _of_settings(struct: str, known: dict[str, Any]) -> dict[str, Any]:
    """The webhook's rules for those values that are its settings, without its defaults."""
    definitions = msgspec.json.schema(Settings)["$defs"]
    rules = definitions[struct]["properties"]
    return {
        name: _resolved(rules[name], definitions) | _text_of(known[name])
        for name in known
        if name in rules and _is_plain(rules[name], definitions)
    }


def _is_plain(rule: dict[str, Any], definitions: dict[str, Any]) -> bool:
    resolved = _resolved(rule, definitions)
    return resolved.get("type") not in ("object", "array")


def _resolved(rule: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in rule.items() if name not in ("default", "$ref")}
    if "$ref" in rule:
        target = definitions[rule["$ref"].rpartition("/")[2]]
        kept = {k: v for k, v in target.items() if k not in ("title", "description")} | kept
    if isinstance(kept.get("default"), dict):
        kept.pop("default")
    return kept


def _text_of(known: dict[str, Any]) -> dict[str, Any]:
    return {"description": known["description"]} if "description" in known else {}


def _type(value: Any, path: str) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
    raise ValueError(f"{path}: say in RULES what this may hold")


def _descriptions() -> dict[str, str]:
    """The comments `# -- ...` of values.yaml, by path."""
    found: dict[str, str] = {}
    open_paths: list[tuple[int, str]] = []
    text = ""
    for indent, name, comment in _lines():
        if comment is not None:
            text = comment[3:] if comment.startswith("-- ") else f"{text} {comment}" if text else ""
            continue
        open_paths = [entry for entry in open_paths if entry[0] < indent]
        path = ".".join([*(entry[1] for entry in open_paths), name])
        open_paths.append((indent, name))
        if text:
            found[path] = text.strip()
        text = ""
    return found


def _lines() -> Iterator[tuple[int, str, str | None]]:
    for line in (CHART / "values.yaml").read_text().splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if stripped.startswith("#"):
            yield indent, "", stripped.removeprefix("#").strip()
        elif match := re.match(r"([A-Za-z]\w*):", stripped):
            yield indent, match[1], None


def text() -> str:
    """The file's content."""
    return json.dumps(made(), indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text())
