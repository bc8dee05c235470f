"""Tests of the newest operator that the older ones pass, too."""

from __future__ import annotations

from tests.operator.test_autoscaling import test_the_autoscaler_scales_under_its_new_account
from tests.operator.test_opting import test_an_annotated_cluster_in_a_namespace_without_label
from tests.operator.test_ray_clusters import (
    test_a_cluster_is_suspended_and_resumed,
    test_a_ready_cluster_is_ready,
    test_the_account_of_a_cluster_goes_with_it,
    test_the_collector_is_the_last_native_sidecar,
    test_the_collector_knows_its_place,
)
from tests.operator.test_ray_jobs import (
    test_a_service,
    test_jobs_without_a_submitter,
    test_the_annotation_of_a_job_reaches_its_pods,
    test_the_submitter_of_a_job_is_left_alone,
)
from tests.operator.test_secured_clusters import test_the_cleanup_of_redis_is_left_alone

__all__ = [
    "test_a_cluster_is_suspended_and_resumed",
    "test_a_ready_cluster_is_ready",
    "test_a_service",
    "test_an_annotated_cluster_in_a_namespace_without_label",
    "test_jobs_without_a_submitter",
    "test_the_account_of_a_cluster_goes_with_it",
    "test_the_annotation_of_a_job_reaches_its_pods",
    "test_the_autoscaler_scales_under_its_new_account",
    "test_the_cleanup_of_redis_is_left_alone",
    "test_the_collector_is_the_last_native_sidecar",
    "test_the_collector_knows_its_place",
    "test_the_submitter_of_a_job_is_left_alone",
]
