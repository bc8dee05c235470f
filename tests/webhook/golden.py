"""Golden files: what becomes of every sample, once with native sidecars and once without.

`python -m tests.webhook.golden` writes them anew; look at the difference before you commit it.
The hook's script is replaced by `$HOOK_SCRIPT`, the version by `$VERSION`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.webhook.samples import CLUSTER, LABELLED, MODES, NAMES, SETTINGS, facts, sample
from webhook.decisions import decide
from webhook.patches import patched
from webhook.patches.hook_script import SCRIPT
from webhook.patches.status import injector_version

FOLDER = Path(__file__).with_name("golden")
VERSION = f'"version":"{injector_version()}"'


def path_of(name: str, mode: str) -> Path:
    """The golden file of a sample; one for both modes where nothing is injected."""
    return FOLDER / f"{name}.{mode}.yaml"


def outcome(name: str, mode: str) -> dict[str, Any]:
    """Decision and patch of a sample, as plain data."""
    pod = sample(name)
    decision = decide(pod, namespace=LABELLED, cluster=CLUSTER, settings=SETTINGS)
    told: dict[str, Any] = {"reason": decision.reason.value, "message": decision.message}
    if not decision.inject:
        return told
    result = patched(pod, facts=facts(mode), settings=SETTINGS)
    return told | {
        "mode": result.mode,
        "eventsPort": result.events_port,
        "warnings": list(result.warnings),
        "added": list(result.added),
        "operations": _plain(result.operations),
    }


def rendered(name: str, mode: str) -> str:
    """The golden file's text."""
    text = yaml.dump(outcome(name, mode), Dumper=_Dumper, sort_keys=False, width=100)
    return f"# Sample {name}, {mode} sidecars.\n{text}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return value.replace(SCRIPT, "$HOOK_SCRIPT").replace(VERSION, '"version":"$VERSION"')
    return value


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Write shared parts out each time."""
        return True


def main() -> int:
    """Write all golden files, and remove those of samples that are gone."""
    FOLDER.mkdir(exist_ok=True)
    wanted = {path_of(name, mode): (name, mode) for name in NAMES for mode in MODES}
    for path in set(FOLDER.glob("*.yaml")) - set(wanted):
        path.unlink()
    for path, (name, mode) in wanted.items():
        path.write_text(rendered(name, mode))
    return 0


if __name__ == "__main__":
    sys.exit(main())
