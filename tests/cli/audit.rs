//! `audit` where there is no cluster; with one, the suite `cluster_audit` looks at it.

use crate::outrigger::{Folder, command, finish, run};

/// A kubeconfig for this address.
fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\nclusters: \
         [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
    )
}

#[test]
fn without_a_cluster_the_error_names_what_to_set() {
    let folder = Folder::of(&[]);
    let empty = finish(command(&["audit"]).env("HOME", folder.path()));
    empty.fails_with("no way to a cluster; give --kubeconfig or set KUBECONFIG");
    run(&["audit", "--kubeconfig", &folder.file("none")]).fails_with("cannot use the kubeconfig");
}

#[test]
fn an_unknown_context_is_named() {
    let folder = Folder::of(&[("config", &kubeconfig("http://127.0.0.1:1"))]);
    run(&["audit", "--kubeconfig", &folder.file("config"), "--context", "there"]).fails_with("there");
    let by_variable = finish(command(&["audit", "--context", "there"]).env("KUBECONFIG", folder.file("config")));
    by_variable.fails_with("cannot use the context \"there\"");
}

#[test]
fn an_unreachable_cluster_exits_2() {
    // A port that nobody listens on: it was ours a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let folder = Folder::of(&[("config", &kubeconfig(&format!("http://127.0.0.1:{port}")))]);
    for exit in [&[][..], &["--exit-zero"]] {
        run(&[&["audit", "--kubeconfig", &folder.file("config")], exit].concat())
            .fails_with("cannot list namespaces in the whole cluster");
    }
}
