"""An admission over a cluster in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.webhook import review_kit
from tests.webhook.fakes import FakeAccounts, FakeEvents, FakeLookups
from webhook.admission import Admission, Entry
from webhook.metrics import WebhookMetrics
from webhook.settings import Settings


def settings(**tables: dict[str, Any]) -> Settings:
    """Settings with a collector image; `collector={"mode": "native"}` and so on."""
    document: dict[str, Any] = {**tables}
    document["collector"] = {"image": "collector:1", **tables.get("collector", {})}
    return msgspec.convert(document, Settings)


@dataclass
class Rig:
    """The admission and what it was given."""

    settings: Settings = field(default_factory=settings)
    lookups: FakeLookups = field(default_factory=FakeLookups)
    accounts: FakeAccounts = field(default_factory=FakeAccounts)
    events: FakeEvents = field(default_factory=FakeEvents)
    metrics: WebhookMetrics = field(default_factory=WebhookMetrics)
    budget_s: float = 2.0

    @property
    def admission(self) -> Admission:
        """Made of the parts as they are now."""
        return Admission(
            settings=self.settings,
            lookups=self.lookups,
            accounts=self.accounts,
            metrics=self.metrics,
            events=self.events,
            budget_s=self.budget_s,
        )

    def ask(
        self, made: Any = None, entry: Entry = Entry.NAMESPACE, **changes: Any
    ) -> dict[str, Any]:
        """Send a review; the response, with the patch's operations under `operations`."""
        document = review_kit.review(made if made is not None else review_kit.pod(), **changes)
        answer = self.admission.review(review_kit.body(document), entry)
        response: dict[str, Any] = json.loads(answer)["response"]
        return {**response, "operations": review_kit.operations(answer)}

    def count(self, decision: str, reason: str, mode: str = "none") -> float:
        """How many were counted so."""
        labels = {"decision": decision, "reason": reason, "mode": mode}
        return (
            self.metrics.registry.get_sample_value("rayhistory_webhook_admissions_total", labels)
            or 0.0
        )
