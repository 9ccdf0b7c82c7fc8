//! Connections to the API server that say nothing any more, and how soon that is noticed.
//!
//! A node or a firewall that is gone ends no connection: nothing comes, and no end either. A watch that is
//! silent like this looks like one in which nothing happens, so each has an end after which it is
//! begun again. Whatever begins or lists has a deadline, since it may be sent on another silent connection.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt, future};
use kube::client::ClientBuilder;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tower::timeout::TimeoutLayer;

/// How long one watch lasts, in seconds, before it goes on as another one. kube gives up one that is silent
/// 5 s later.
const WATCH_SECONDS: u32 = 30;

/// How long the API server may take to begin its answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer that has begun may pause. A watch in which nothing happens is one that pauses.
const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// A client that notices a connection that has fallen silent.
///
/// # Errors
/// When none can be made from this configuration.
pub(crate) fn client(mut config: kube::Config) -> kube::Result<Client> {
    config.read_timeout = Some(READ_TIMEOUT);
    // Otherwise the time that a connection has not been used counts.
    config.reset_reader_on_write = true;
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&TimeoutLayer::new(HEAD_TIMEOUT)).build())
}

/// For a watch that notices silence.
pub(crate) fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Watches one object: `None` when it does not exist. What is shown first is read anew, as the store has it
/// at that time. As [`watcher::watch_object`], which takes no configuration.
pub(crate) fn watch_object<K>(api: Api<K>, name: &str) -> impl Stream<Item = watcher::Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watch_config().fields(&format!("metadata.name={name}"));
    let shown = watcher(api, config).scan(false, |listed, event| future::ready(Some(show(listed, event))));
    shown.filter_map(future::ready)
}

/// What an event says about the one object; `listed` is whether the list that is under way has shown it.
fn show<K>(listed: &mut bool, event: watcher::Result<Event<K>>) -> Option<watcher::Result<Option<K>>> {
    match event {
        Ok(Event::Init) => {
            *listed = false;
            None
        }
        Ok(Event::InitApply(object)) => {
            *listed = true;
            Some(Ok(Some(object)))
        }
        Ok(Event::Apply(object)) => Some(Ok(Some(object))),
        Ok(Event::Delete(_)) => Some(Ok(None)),
        Ok(Event::InitDone) => (!*listed).then_some(Ok(None)),
        Err(error) => Some(Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_no_list_shows_does_not_exist() {
        let events = [
            (Event::Init, None),
            (Event::InitDone, Some(None)),
            (Event::Apply(1), Some(Some(1))),
            (Event::Delete(1), Some(None)),
            (Event::Init, None),
            (Event::InitApply(2), Some(Some(2))),
            (Event::InitDone, None),
            (Event::Init, None),
            (Event::InitDone, Some(None)),
        ];
        let mut listed = false;
        for (index, (event, expected)) in events.into_iter().enumerate() {
            let shown = show(&mut listed, Ok(event)).map(|shown| shown.ok().flatten());
            assert_eq!(shown, expected, "event {index}");
        }
        let failed = show::<u8>(&mut listed, Err(watcher::Error::NoResourceVersion));
        assert!(matches!(failed, Some(Err(_))));
    }

    /// Deadlines that an answer to a watch without events meets, and that still end before a minute.
    #[test]
    fn silence_is_noticed_within_a_minute() {
        const { assert!(READ_TIMEOUT.as_secs() > WATCH_SECONDS as u64 + 5) };
        const { assert!(WATCH_SECONDS as u64 + 5 + HEAD_TIMEOUT.as_secs() < 60) };
    }
}
