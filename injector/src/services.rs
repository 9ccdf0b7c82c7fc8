//! What is known about Services: a watch that keeps of each one the ports that `upstreams: auto` can find, and nothing
//! else. There may be ten thousand of them, and nobody else needs the rest.

use std::sync::{Arc, PoisonError, RwLock};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use crate::error::error_chain;
use crate::metrics::Metrics;
use crate::namespace::NamespaceInfo;
use crate::service::{Services, View};
use crate::silence;

/// The Services of a cluster, shared by the watch that keeps them and the admissions that read them.
#[derive(Debug, Default)]
pub struct Known(RwLock<State>);

#[derive(Debug, Clone, Default)]
struct State {
    watched: bool,
    listed: bool,
    services: Arc<Services>,
}

/// What was known at one moment. It keeps nobody from knowing more.
#[derive(Debug)]
pub struct Moment(State);

impl Known {
    /// Nothing is known yet; and nothing ever will be, unless Services are `watched`.
    #[must_use]
    pub fn new(watched: bool) -> Self {
        Self(RwLock::new(State {
            watched,
            ..State::default()
        }))
    }

    /// These are all that there are.
    #[must_use]
    pub fn all(services: Services) -> Self {
        Self(RwLock::new(State {
            watched: true,
            listed: true,
            services: Arc::new(services),
        }))
    }

    /// Whether no pod has to wait for a list.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.read(|state| state.listed || !state.watched)
    }

    /// What is known now.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.read(|state| Moment(state.clone()))
    }

    /// Takes in what is known of a namespace; `None`: it is gone.
    pub fn namespace(&self, name: &str, info: Option<&NamespaceInfo>) {
        self.write(|state| Arc::make_mut(&mut state.services).namespace(name, info));
    }

    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        // A panic elsewhere cannot leave it half written: a change is one call.
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what the watch says; `listing` gathers a list until it is whole. Whether it is whole now.
    fn take_in(&self, event: Event<Service>, listing: &mut Services) -> bool {
        match event {
            Event::Init => *listing = Services::default(),
            Event::InitApply(service) => {
                listing.apply(&service);
            }
            Event::InitDone => {
                let listed = std::mem::take(listing);
                self.write(|state| {
                    Arc::make_mut(&mut state.services).replace(listed);
                    state.listed = true;
                });
                return true;
            }
            Event::Apply(service) => self.change(|services| services.apply(&service)),
            Event::Delete(service) => {
                let metadata = service.metadata;
                let (namespace, name) = (
                    metadata.namespace.unwrap_or_default(),
                    metadata.name.unwrap_or_default(),
                );
                self.change(|services| services.remove(&namespace, &name));
            }
        }
        false
    }

    fn change(&self, change: impl FnOnce(&mut Services) -> bool) {
        self.write(|state| change(Arc::make_mut(&mut state.services)));
    }
}

impl Moment {
    /// The same for the core.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let State {
            watched,
            listed,
            services,
        } = &self.0;
        match (watched, listed) {
            (false, _) => View::Off,
            (true, false) => View::NotListed,
            (true, true) => View::Known(services),
        }
    }
}

/// Watches the cluster's Services for `known`. Never ends by itself: failures are logged and tried again with growing
/// pauses, and what was known stays.
pub async fn watch(client: Client, known: Arc<Known>, metrics: Arc<Metrics>) {
    let api: Api<Service> = Api::all(client);
    let events = watcher(api, silence::watch_config()).default_backoff();
    follow(events, &known, &metrics).await;
}

async fn follow(events: impl Stream<Item = watcher::Result<Event<Service>>> + Send, known: &Known, metrics: &Metrics) {
    let mut events = std::pin::pin!(events);
    let mut listing = Services::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if known.take_in(event, &mut listing) {
                    let (namespaces, ports) = known.read(|state| state.services.counts());
                    tracing::info!(namespaces, ports, "services are synced");
                }
            }
            Err(error) => {
                metrics.service_watch_errors.inc();
                let error = error_chain(&error);
                tracing::warn!(error, "the watch on Services failed and is tried again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn service(name: &str, port: u16) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": port}]},
        }))
        .unwrap()
    }

    fn ports(known: &Known) -> usize {
        match known.now().view() {
            View::Known(services) => services.counts().1,
            view => panic!("{view:?}"),
        }
    }

    #[test]
    fn is_not_known_before_the_list_is_whole() {
        let (known, mut listing) = (Known::new(true), Services::default());
        assert!(known.take_in(Event::InitDone, &mut listing));
        assert!(known.ready());
        let known = Known::new(true);
        for event in [Event::Init, Event::InitApply(service("a", 80))] {
            known.take_in(event, &mut listing);
            assert!(matches!(known.now().view(), View::NotListed));
            assert!(!known.ready());
        }
        known.take_in(Event::InitDone, &mut listing);
        assert_eq!(ports(&known), 1);
    }

    #[test]
    fn a_new_list_replaces_all_at_once_when_it_is_whole() {
        let (known, mut listing) = (Known::new(true), Services::default());
        for event in [Event::Init, Event::InitApply(service("a", 80)), Event::InitDone] {
            known.take_in(event, &mut listing);
        }
        known.take_in(Event::Apply(service("b", 80)), &mut listing);
        assert_eq!(ports(&known), 2);
        known.take_in(Event::Init, &mut listing);
        known.take_in(Event::InitApply(service("c", 80)), &mut listing);
        assert_eq!(ports(&known), 2, "the old ones, until the list is whole");
        known.take_in(Event::InitDone, &mut listing);
        assert_eq!(ports(&known), 1);
        known.take_in(Event::Delete(service("c", 80)), &mut listing);
        assert_eq!(ports(&known), 0);
    }

    /// Where nobody watches, nothing is waited for.
    #[test]
    fn is_off_where_nobody_watches() {
        let known = Known::new(false);
        assert!(known.ready());
        assert!(matches!(known.now().view(), View::Off));
    }

    #[tokio::test]
    async fn failures_are_counted_and_change_nothing() {
        let (known, metrics) = (Known::new(true), crate::server::new_metrics());
        let events = [
            Ok(Event::Init),
            Ok(Event::InitApply(service("a", 80))),
            Ok(Event::InitDone),
            Err(watcher::Error::NoResourceVersion),
        ];
        follow(futures::stream::iter(events), &known, &metrics).await;
        assert_eq!(ports(&known), 1);
        assert_eq!(metrics.service_watch_errors.get(), 1);
    }
}
