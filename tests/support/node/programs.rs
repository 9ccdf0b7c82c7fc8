//! The programs of the node beside the control plane: their flags and configuration files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::NAME;
use super::enclosure::Enclosure;
use super::remains;
use crate::cluster::processes::Processes;
use crate::cluster::{Cluster, tool};

/// Writes the configuration of containerd and of the pods' network, and starts containerd.
pub(crate) fn start_containerd(daemons: &mut Processes, enclosure: &Enclosure) {
    let network = filled(include_str!("../../cluster/node/pods.conflist"), enclosure);
    write(&enclosure.folder().join("cni"), "pods.conflist", &network);
    let plugin = include_str!("../../cluster/node/keep-addresses");
    let plugin = write(&enclosure.folder().join("cni-plugins"), "keep-addresses", plugin);
    std::fs::set_permissions(plugin, Permissions::from_mode(0o755)).expect("the file is ours");
    let configuration = filled(include_str!("../../cluster/node/containerd.toml"), enclosure);
    let path = write(&enclosure.folder(), "containerd.toml", &configuration);
    let flags = [format!("--config={}", path.display())];
    daemons.start("containerd", &tool("CONTAINERD"), &flags);
}

/// Starts scheduler, kubelet and kube-proxy.
pub(crate) fn start_others(daemons: &mut Processes, cluster: &Cluster, enclosure: &Enclosure) {
    daemons.start("kube-scheduler", &tool("KUBE_SCHEDULER"), &scheduler_flags(cluster));
    daemons.start("kubelet", &tool("KUBELET"), &kubelet_flags(cluster, enclosure));
    daemons.start("kube-proxy", &tool("KUBE_PROXY"), &proxy_flags(cluster, enclosure));
}

fn scheduler_flags(cluster: &Cluster) -> Vec<String> {
    let kubeconfig = cluster.kubeconfig_for("scheduler", "system:kube-scheduler", None);
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        // No port of its own.
        "--secure-port=0".to_owned(),
    ]
}

fn kubelet_flags(cluster: &Cluster, enclosure: &Enclosure) -> Vec<String> {
    let kubeconfig = cluster.kubeconfig_for("kubelet", &format!("system:node:{NAME}"), Some("system:nodes"));
    // Nothing outside is resolved.
    write(&enclosure.folder(), "resolv.conf", "");
    let configuration = filled(include_str!("../../cluster/node/kubelet.yaml"), enclosure);
    let path = write(&enclosure.folder(), "kubelet.yaml", &configuration);
    vec![
        format!("--config={}", path.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--hostname-override={NAME}"),
        format!(
            "--node-ip={},{}",
            remains::address(enclosure.number()),
            remains::v6::address(enclosure.number())
        ),
    ]
}

fn proxy_flags(cluster: &Cluster, enclosure: &Enclosure) -> Vec<String> {
    let kubeconfig = cluster.kubeconfig_for("proxy", "system:kube-proxy", None);
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--hostname-override={NAME}"),
        "--proxy-mode=nftables".to_owned(),
        format!(
            "--cluster-cidr={},{}",
            remains::pods(enclosure.number()),
            remains::v6::pods(enclosure.number())
        ),
        // Limits of the whole machine, which cannot be set from inside.
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-tcp-timeout-established=0".to_owned(),
        "--conntrack-tcp-timeout-close-wait=0".to_owned(),
    ]
}

fn filled(text: &str, enclosure: &Enclosure) -> String {
    text.replace("@folder@", &enclosure.folder().display().to_string())
        .replace("@cgroup@", &format!("/{}", enclosure.name()))
        .replace("@pods@", &remains::pods(enclosure.number()))
        .replace("@pods6@", &remains::v6::pods(enclosure.number()))
        .replace("@shim@", &tool("CONTAINERD_SHIM").display().to_string())
}

fn write(folder: &Path, file: &str, text: &str) -> PathBuf {
    let path = folder.join(file);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
    path
}
