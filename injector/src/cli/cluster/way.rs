//! The way to a cluster.

use std::path::{Path, PathBuf};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::ClusterError;
use crate::settings::values::shown;

/// The way to a cluster, as kubectl would take it.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Way {
    /// The kubeconfig; without it $KUBECONFIG, ~/.kube/config, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Way {
    /// The configuration of a client that goes it.
    pub(super) async fn config(&self) -> Result<Config, ClusterError> {
        config(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// The address as it may stand in a report: a user and password before the host are left out.
pub(super) fn without_password(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{}", &rest[authority.len()..])
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ClusterError> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    match (kubeconfig, context) {
        (Some(path), _) => {
            let wrong = |source| ClusterError::Kubeconfig {
                path: path.display().to_string(),
                source: Box::new(source),
            };
            let read = Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(wrong)
        }
        (None, Some(context)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|source| ClusterError::Context {
                context: shown(context),
                source: Box::new(source),
            }),
        (None, None) => Config::infer()
            .await
            .map_err(|error| ClusterError::Nowhere(Box::new(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_no_part_of_a_report() {
        for (address, shown) in [
            ("https://10.0.0.1:6443/", "https://10.0.0.1:6443/"),
            (
                "https://me:s3cr3t@k8s.example.com/k8s/c-1",
                "https://k8s.example.com/k8s/c-1",
            ),
            ("https://[fd00::1]:6443/a@b", "https://[fd00::1]:6443/a@b"),
        ] {
            assert_eq!(without_password(address), shown);
        }
    }
}
