//! The programs of a control plane, their flags and their kubeconfig files.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::certificates::{Authority, Files};
use super::processes::Processes;
use super::tools::tool;

/// Where a control plane runs.
pub(crate) struct Site {
    // Processes are dropped before whatever removes their folder.
    pub(crate) processes: Processes,
    /// Holds everything of the cluster, logs included.
    pub(crate) folder: PathBuf,
    pub(crate) authority: Authority,
    /// Where the API server is reached.
    pub(crate) address: Ipv4Addr,
    pub(crate) ports: Ports,
    /// Flags of the API server that only this site needs.
    pub(crate) api_server: Vec<String>,
}

/// The ports of a control plane's servers.
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peers: u16,
    pub(crate) api_server: u16,
}

/// The addresses of all Services.
pub(crate) const SERVICES: &str = "10.96.0.0/16";

/// What the certificate of an API server names beside its address, the first of the Services among them.
const NAMES: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

impl Site {
    /// A control plane without a node, on loopback.
    pub(crate) fn loopback(folder: &Path, [etcd, etcd_peers, api_server]: [u16; 3]) -> Self {
        Self {
            processes: Processes::new(folder),
            folder: folder.to_owned(),
            authority: Authority::new(folder),
            address: Ipv4Addr::LOCALHOST,
            ports: Ports {
                etcd,
                etcd_peers,
                api_server,
            },
            api_server: vec![
                "--bind-address=127.0.0.1".to_owned(),
                // The endpoints of the Service `kubernetes` may not be loopback addresses; nobody here needs them.
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
            ],
        }
    }

    /// The kubeconfig file of that name.
    pub(crate) fn kubeconfig(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.kubeconfig"))
    }

    /// Writes a kubeconfig file for a user, with a certificate of its own.
    pub(crate) fn write_kubeconfig(&self, name: &str, user: &str, group: Option<&str>) -> PathBuf {
        let files = self.authority.client(user, group);
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://{}:{}", self.address, self.ports.api_server),
                "certificate-authority": self.authority.certificate,
            }}],
            "users": [{"name": name, "user": {"client-certificate": files.certificate, "client-key": files.key}}],
        });
        let path = self.kubeconfig(name);
        std::fs::write(&path, kubeconfig.to_string())
            .unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
        path
    }

    pub(crate) fn start_etcd(&mut self) {
        let flags = self.etcd_flags();
        self.processes.start("etcd", &tool("ETCD"), &flags);
    }

    pub(crate) fn start_api_server(&mut self, token_keys: &Files) {
        let flags = self.api_server_flags(token_keys);
        self.processes.start("kube-apiserver", &tool("KUBE_APISERVER"), &flags);
    }

    pub(crate) fn start_controller_manager(&mut self, token_keys: &Files) {
        let kubeconfig = self.write_kubeconfig("controllers", "system:kube-controller-manager", None);
        let flags = self.controller_manager_flags(&kubeconfig, token_keys);
        self.processes
            .start("kube-controller-manager", &tool("KUBE_CONTROLLER_MANAGER"), &flags);
    }

    fn etcd_flags(&self) -> Vec<String> {
        let (clients, peers) = (self.ports.etcd, self.ports.etcd_peers);
        vec![
            format!("--data-dir={}", self.path("etcd").display()),
            format!("--listen-client-urls=http://127.0.0.1:{clients}"),
            format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peers}"),
            "--log-level=warn".to_owned(),
            // Nothing of it must survive a crash.
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    fn api_server_flags(&self, token_keys: &Files) -> Vec<String> {
        let address = self.address.to_string();
        let names: Vec<&str> = NAMES.into_iter().chain([address.as_str()]).collect();
        let serving = self.authority.server_for("kube-apiserver", &names);
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--secure-port={}", self.ports.api_server),
            format!("--service-cluster-ip-range={SERVICES}"),
            format!("--tls-cert-file={}", serving.certificate.display()),
            format!("--tls-private-key-file={}", serving.key.display()),
            format!("--client-ca-file={}", self.authority.certificate.display()),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={}", token_keys.certificate.display()),
            format!("--service-account-signing-key-file={}", token_keys.key.display()),
        ];
        flags.extend_from_slice(&self.api_server);
        flags
    }

    fn controller_manager_flags(&self, kubeconfig: &Path, token_keys: &Files) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--root-ca-file={}", self.authority.certificate.display()),
            format!("--service-account-private-key-file={}", token_keys.key.display()),
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            // No port of its own.
            "--secure-port=0".to_owned(),
        ]
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }
}
