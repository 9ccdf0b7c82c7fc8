//! The redirecting rules in a real kernel: a pod, a node and a peer as network namespaces, the very init container and nginx
//! that `outrigger inject` gives the pod, and bytes both ways.
//!
//! Needs root, and the programs in `tests/install-packages`. The namespaces are held by processes and end with them, so
//! nothing is left, however a run ends, and runs beside each other do not meet.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "redirect_network/failures.rs"]
mod failures;
#[path = "redirect_network/families.rs"]
mod families;
#[path = "redirect_network/inbound.rs"]
mod inbound;
#[path = "redirect_network/names.rs"]
mod names;
#[path = "support/nft.rs"]
mod nft;
#[path = "redirect_network/outbound.rs"]
mod outbound;
#[path = "redirect_network/pod.rs"]
mod pod;
#[path = "redirect_network/probes.rs"]
mod probes;
#[path = "support/processes.rs"]
mod processes;
#[path = "support/program.rs"]
mod program;
#[path = "redirect_network/rules.rs"]
mod rules;
#[path = "redirect_network/site.rs"]
mod site;
#[path = "redirect_network/space.rs"]
mod space;
#[path = "redirect_network/talk.rs"]
mod talk;
#[path = "support/tools.rs"]
mod tools;
