//! What manifests say of namespaces and Services.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde::Deserialize;
use serde_json::Value;

use super::{DEFAULT_NAMESPACE, Manifest, ManifestError};
use crate::namespace::NamespaceInfo;
use crate::service::{Services, View};
use crate::settings::values::shown;
use crate::workload::{Object, objects};

/// What is known of namespaces, and of the Services in them.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    infos: BTreeMap<String, NamespaceInfo>,
    /// `None`: no Service was given.
    services: Option<Services>,
}

impl Namespaces {
    /// The Namespace and Service objects among `manifests`; later ones replace earlier ones.
    ///
    /// # Errors
    /// A label or annotation of a namespace is no string, or a Service is none.
    pub fn collect<'m, 's: 'm>(manifests: impl IntoIterator<Item = &'m Manifest<'s>>) -> Result<Self, ManifestError> {
        let mut namespaces = Self::default();
        for manifest in manifests {
            for document in manifest.documents.iter().filter_map(|d| d.value.as_ref()) {
                for object in objects(document) {
                    let read = object.of(document).map(NamespaceInfo::from_object).transpose();
                    let wrong = |source| ManifestError::Namespace {
                        file: manifest.source.name.clone(),
                        source,
                    };
                    namespaces.infos.extend(read.map_err(wrong)?.flatten());
                    namespaces.add_service(manifest, document, &object)?;
                }
            }
        }
        let Self { infos, services } = &mut namespaces;
        if let Some(services) = services {
            infos
                .iter()
                .for_each(|(name, info)| services.namespace(name, Some(info)));
            services.enable_unknown();
        }
        Ok(namespaces)
    }

    fn add_service(&mut self, manifest: &Manifest<'_>, document: &Value, object: &Object) -> Result<(), ManifestError> {
        let is_service = |value: &&Value| object.kind == "Service" && value.get("apiVersion") == Some(&"v1".into());
        let Some(value) = object.of(document).filter(is_service) else {
            return Ok(());
        };
        let mut service = Service::deserialize(value).map_err(|source| ManifestError::Service {
            file: manifest.source.name.clone(),
            name: shown(&object.name),
            source,
        })?;
        let namespace = &mut service.metadata.namespace;
        namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.to_owned());
        self.services.get_or_insert_default().apply(&service);
        Ok(())
    }

    /// What is known of Services.
    #[must_use]
    pub fn services(&self) -> View<'_> {
        self.services.as_ref().map_or(View::Off, View::Known)
    }

    /// What is known of a namespace.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NamespaceInfo> {
        self.infos.get(name)
    }
}
