//! The upstreams of a pod that are found among the cluster's Services.

use super::Injector;
use crate::context;
use crate::decision::Subject;
use crate::error::InternalError;
use crate::names;
use crate::service::{Found, FoundPort, Reach, View};
use crate::settings::Settings;

impl Injector {
    /// What a pod's upstreams are where they are not listed.
    pub(crate) fn found(
        &self,
        subject: Subject<'_, '_>,
        settings: &Settings,
        mtls: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Found, InternalError> {
        if !context::finds(settings, mtls) {
            return Ok(Found::default());
        }
        let services = match subject.services {
            View::Known(services) => services,
            View::NotListed => return Err(InternalError::ServicesNotListed),
            View::Off => {
                warnings.push(format!(
                    "{}: auto finds nothing, since no Service is known here",
                    names::UPSTREAMS
                ));
                return Ok(Found::default());
            }
        };
        Ok(services.find(&Reach {
            own: (subject.namespace, subject.info),
            others: settings.upstream_namespaces.as_ref(),
            excluded: settings.exclude_outbound_ports.as_ref().map_or(&[], |list| &list.0),
            most: settings.auto_upstreams_limit.map_or(0, |limit| limit.0.into()),
            policy: &self.policy,
        }))
    }

    /// The upstreams of a pod that were found, for its owner to see.
    ///
    /// # Errors
    /// The Services have not been listed yet.
    pub fn found_upstreams(&self, subject: Subject<'_, '_>) -> Result<Vec<FoundPort>, InternalError> {
        match self.resolved(subject) {
            Ok((resolved, template)) => {
                let found = self.found(subject, &resolved.settings, template.mtls, &mut Vec::new())?;
                Ok(found.ports)
            }
            Err(_) => Ok(Vec::new()),
        }
    }
}
