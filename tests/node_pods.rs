//! Injected pods that run: a real kubelet starts, probes, stops and restarts them, and real bytes pass through their
//! proxies, in every traffic mode and position.
//!
//! All tests share one node with the chart installed, each in a namespace of its own. They wait for pods most of the time,
//! so more of them run at once than there are cores, which the usual harness does only when it is asked each time. What
//! counts lost requests runs alone: applications that get no time to answer lose some, whoever carries them.
#![allow(clippy::unwrap_used)]

use std::process::ExitCode;

use trials::tests;
use workloads::Mesh;

#[path = "support/cluster.rs"]
mod cluster;
#[path = "node_pods/denials.rs"]
mod denials;
#[path = "node_pods/explicit.rs"]
mod explicit;
#[path = "node_pods/faults.rs"]
mod faults;
#[path = "node_pods/jobs.rs"]
mod jobs;
#[path = "node_pods/kubectl.rs"]
mod kubectl;
#[path = "node_pods/limits.rs"]
mod limits;
#[path = "support/node.rs"]
mod node;
#[path = "node_pods/positions.rs"]
mod positions;
#[path = "node_pods/probes.rs"]
mod probes;
#[path = "node_pods/redirect.rs"]
mod redirect;
#[path = "support/release.rs"]
mod release;
#[path = "node_pods/stopping.rs"]
mod stopping;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/workloads.rs"]
mod workloads;

fn main() -> ExitCode {
    let mut arguments = trials::arguments();
    // Those that take longest begin first.
    let together = tests![
        faults::waits_for_a_service_that_is_missing,
        probes::reach_the_application,
        probes::say_that_an_application_is_dead,
        probes::restart_an_application_that_hangs,
        faults::answers_again_when_a_service_comes_back,
        faults::survives_the_end_of_nginx,
        stopping::finishes_what_is_in_flight,
        stopping::carries_calls_of_an_application_that_drains,
        jobs::end_by_themselves,
        positions::give_the_network_to_init_containers,
        kubectl::means_the_application,
        kubectl::copies_a_pod,
        kubectl::rolls_out_and_back,
        explicit::calls_pass_both_proxies,
        limits::hold_in_a_restricted_namespace,
        limits::hold_with_redirect,
        redirect::calls_pass_both_proxies,
        redirect::carries_ipv6,
        redirect::leaves_excluded_ports_alone,
        denials::say_which_port_is_taken,
        denials::say_that_a_configuration_is_too_large,
    ];
    let apart = tests![stopping::loses_no_request_in_a_rolling_restart];
    let mut failed = trials::run(&arguments, together, || Mesh::start(&[])).has_failed();
    arguments.test_threads = Some(1);
    failed |= trials::run(&arguments, apart, || Mesh::start(&[])).has_failed();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
