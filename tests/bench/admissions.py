"""How soon and how many reviews a webhook answers, and whether any is lost on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Bench, Figure, benchmark
from tests.webhook import review_load
from tests.webhook.review_load import Plan, Report
from tests.webhook.webhook_process import WebhookProcess

STEADY_PER_S = 300
ROTATED_COUNT = 10_000
ROTATIONS = 6
BURST_PODS = 50


@benchmark("admissions")
def answer_reviews(bench: Bench) -> Iterator[Figure]:
    """One webhook over TLS, each review patched; the sender shares its cores."""
    webhook = WebhookProcess(bench.folder, "--listen-drain-seconds=3").wait_ready()
    try:
        _sent(webhook, count=1000)  # warm
        yield Figure("admissions_rss_mib", _rss_mib(webhook), "MiB", at_most=120)
        peak = _sent(webhook, connections=8, count=10_000)
        rate = len(peak.times_ms) / peak.seconds
        yield Figure("admissions_peak_per_s", rate, "1/s", at_least=1000)
        cpu_s = _cpu_s(webhook)
        steady = _sent(webhook, connections=8, count=STEADY_PER_S * 20, per_s=STEADY_PER_S)
        cores = (_cpu_s(webhook) - cpu_s) / steady.seconds
        yield Figure("admissions_cpu_at_300_per_s", cores, "cores")
        yield Figure("admissions_at_300_per_s_median_ms", steady.part_ms(0.5), "ms")
        yield Figure("admissions_at_300_per_s_p99_ms", steady.part_ms(0.99), "ms", at_most=10)
        burst = _sent(webhook, connections=BURST_PODS, count=BURST_PODS)
        yield Figure("admissions_burst_of_50_slowest_ms", burst.part_ms(1.0), "ms")
        fresh = _sent(webhook, connections=4, count=1000, reviews_per_connection=1)
        rate = len(fresh.times_ms) / fresh.seconds
        yield Figure("admissions_new_connection_each_per_s", rate, "1/s")
        yield from _rotated(webhook)
        yield from _ended(webhook, bench)
    finally:
        webhook.stop()


def _rotated(webhook: WebhookProcess) -> Iterator[Figure]:
    """A fifth of the reviews comes on connections of their own, to meet every certificate."""
    part = ROTATED_COUNT // 5
    plans = [
        _plan(webhook, connections=4, count=part * 4, per_s=400),
        _plan(webhook, connections=4, count=part, per_s=100, reviews_per_connection=1),
    ]
    before = webhook.reviews()
    loads = [review_load.start(plan) for plan in plans]
    for number in range(1, ROTATIONS + 1):
        webhook.wait_reviews(before + number * ROTATED_COUNT // (ROTATIONS + 1))
        webhook.certificates.rotate()
    reports = [review_load.report_of(load) for load in loads]
    answered = sum(len(report.times_ms) for report in reports)
    faults = ROTATED_COUNT - answered
    yield Figure("admissions_failed_of_10000_in_6_rotations", faults, "", at_most=0)
    seen = reports[1].certificates
    yield Figure("admissions_certificates_seen", seen, "", at_least=ROTATIONS)


def _ended(webhook: WebhookProcess, bench: Bench) -> Iterator[Figure]:
    """SIGTERM under load, with a second replica for what comes after an announced close."""
    other = WebhookProcess(bench.folder, certificates=webhook.certificates).wait_ready()
    try:
        plan = _plan(webhook, connections=8, count=3000, per_s=STEADY_PER_S)
        plan.ports.append(other.port)
        before = webhook.reviews()
        load = review_load.start(plan)
        webhook.wait_reviews(before + 1000)
        webhook.process.terminate()
        report = review_load.report_of(load)
        lost = 3000 - len(report.times_ms)
        yield Figure("admissions_lost_at_sigterm", lost, "", at_most=0)
        yield Figure("admissions_exit_status", webhook.process.wait(30), "", at_most=0)
    finally:
        other.stop()


def _plan(webhook: WebhookProcess, **values: float) -> Plan:
    plan = Plan([webhook.port], str(webhook.certificates.ca_file))
    for name, value in values.items():
        setattr(plan, name, value)
    return plan


def _sent(webhook: WebhookProcess, **values: float) -> Report:
    report = review_load.report_of(review_load.start(_plan(webhook, **values)))
    assert report.faults == [], report.faults[:3]
    time.sleep(0.2)
    return report


def _cpu_s(webhook: WebhookProcess) -> float:
    fields = Path(f"/proc/{webhook.worker_pid()}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _rss_mib(webhook: WebhookProcess) -> float:
    """Of master and worker; pages that they share count once."""
    total_kib = 0
    for pid in (webhook.process.pid, webhook.worker_pid()):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        (pss,) = (line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
        total_kib += int(pss)
    return total_kib / 1024
