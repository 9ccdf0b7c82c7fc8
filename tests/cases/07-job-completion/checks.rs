//! What must hold, as `case.md` says.

use outrigger::names;
use serde_json::{Value, json};

use crate::call;
use crate::guarantees::{container, is_lossless, is_valid_pod, names_in};
use crate::program::{Run, documents};
use crate::review::Call;

const CRON_JOB: &str = include_str!("cronjob.yaml");
const TEMPLATE: &str = "/spec/jobTemplate/spec/template";

fn of_a_job() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn pod_that_ends_gets_a_native_sidecar() {
    for policy in ["OnFailure", "Never"] {
        for template in crate::TEMPLATES {
            let call = of_a_job()
                .with("/spec/restartPolicy", policy)
                .annotated(names::TEMPLATE, template);
            let pod = call.mutate().injected();
            assert!(
                names_in(&pod, "initContainers").contains(&names::PROXY_CONTAINER),
                "{policy}"
            );
            assert_eq!(names_in(&pod, "containers"), ["invoice"], "{policy}");
            assert_eq!(pod["spec"]["restartPolicy"], policy);
            let proxy = container(&pod, names::PROXY_CONTAINER);
            assert_eq!(proxy["restartPolicy"], "Always");
            assert!(
                stopping(&pod).0 <= 1,
                "the kubelet stops it after the application, and then at once"
            );
        }
    }
}

#[test]
fn pod_that_runs_on_gets_an_ordinary_one() {
    let pod = of_a_job().with("/spec/restartPolicy", "Always").mutate().injected();
    assert_eq!(names_in(&pod, "containers"), ["proxy-sidecar", "invoice"]);
}

#[test]
fn position_that_was_asked_for_is_kept() {
    for position in ["first", "last"] {
        let pod = of_a_job().annotated(names::POSITION, position).mutate().injected();
        assert_eq!(names_in(&pod, "containers").len(), 2, "{position}");
    }
}

#[test]
fn job_can_opt_out() {
    of_a_job()
        .annotated(names::INJECT, "disabled")
        .mutate()
        .skipped("pod-disabled");
    of_a_job()
        .labelled(names::INJECT, "disabled")
        .mutate()
        .skipped("pod-disabled");
}

#[test]
fn ordinary_proxy_waits_for_the_drain_within_the_grace_period() {
    for grace in [None, Some(2), Some(5), Some(30), Some(3600)] {
        let call = of_a_job().annotated(names::POSITION, "first");
        let call = grace.map_or_else(|| call.clone(), |g| call.with("/spec/terminationGracePeriodSeconds", g));
        let pod = call.mutate().injected();
        let (drain, shutdown) = stopping(&pod);
        assert!(drain > 0, "{grace:?}: the proxy stops with the application");
        let grace = grace.unwrap_or(30);
        assert!(drain < grace, "{grace}: it is stopped before it is killed");
        assert!(
            shutdown < grace,
            "{grace}: what was open at the beginning ends before that"
        );
    }
    for grace in [-1, 0, 1, i64::MAX, i64::MIN] {
        let call = of_a_job().annotated(names::POSITION, "first");
        call.with("/spec/terminationGracePeriodSeconds", grace)
            .mutate()
            .injected();
    }
}

/// The seconds that the proxy waits before it stops, and those that it gives to connections that are open when it is told
/// to read its configuration again, or to stop.
fn stopping(pod: &Value) -> (i64, i64) {
    let command = &container(pod, names::PROXY_CONTAINER)["lifecycle"]["preStop"]["exec"]["command"];
    // Before and after it is told to keep no connection.
    let waits = command.as_array().expect("a command").iter().rev().take(2);
    let drain = waits
        .map(|seconds| seconds.as_str().unwrap().parse::<i64>().unwrap())
        .sum();
    let config = pod["metadata"]["annotations"][names::NGINX_CONF].as_str().unwrap();
    let shutdown = config
        .lines()
        .find_map(|line| line.strip_prefix("worker_shutdown_timeout "));
    let shutdown = shutdown
        .and_then(|rest| rest.strip_suffix("s;"))
        .expect("a timeout in seconds");
    (drain, shutdown.trim_matches('"').parse().unwrap())
}

#[test]
fn inject_changes_the_template_of_the_cron_job_and_nothing_else() {
    let run = Run::inject(CRON_JOB);
    run.reports("CronJob shop/invoice", "injected");
    let (before, mut after) = (documents(CRON_JOB).remove(0), run.documents().remove(0));
    let pods = (
        before.pointer(TEMPLATE).unwrap().clone(),
        after.pointer(TEMPLATE).unwrap().clone(),
    );
    is_lossless(&pods.0, &pods.1);
    is_valid_pod(&pods.1);
    assert_eq!(names_in(&pods.1, "containers"), ["invoice"]);
    *after.pointer_mut(TEMPLATE).unwrap() = pods.0;
    assert_eq!(after, before);
}

#[test]
fn opt_out_is_read_from_the_pod_template_alone() {
    let with = |pointer: &str| {
        let mut job = documents(CRON_JOB).remove(0);
        job.pointer_mut(pointer).unwrap()["annotations"] = json!({names::INJECT: "disabled"});
        Run::inject(&outrigger::yaml::to_yaml(&job))
    };
    for outside in ["/metadata", "/spec/jobTemplate/metadata"] {
        with(outside).reports("CronJob shop/invoice", "injected");
    }
    let run = with("/spec/jobTemplate/spec/template/metadata");
    run.reports("CronJob shop/invoice", "pod-disabled");
    assert!(!run.stdout.contains(names::PROXY_CONTAINER));
}
