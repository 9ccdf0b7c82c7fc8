//! kubectl means the application where nobody names a container, as if there were no proxy.

use outrigger::names;
use serde_json::{Value, json};

use crate::cluster::processes::Processes;
use crate::cluster::tool;
use crate::node::images::BUSYBOX;
use crate::positions::POSITIONS;
use crate::workloads::{Echo, Mesh, Namespace, text};

/// An application with a shell that says something at its start.
fn talkative(position: &str) -> Echo {
    let shell = "echo ready to talk; echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp";
    Echo::new(position)
        .annotation(names::POSITION, position)
        .container(json!({"image": BUSYBOX, "command": ["sh", "-c", shell], "args": []}))
}

pub(crate) fn means_the_application(mesh: &Mesh) {
    let shop = mesh.namespace("kubectl");
    let apps = POSITIONS.map(talkative);
    shop.deploy(&apps.each_ref());
    for position in POSITIONS {
        let (deployment, pod) = (format!("deployment/{position}"), shop.pod(position));
        for object in [&*deployment, &*pod] {
            let log = shop.kubectl(&["logs", object]).expect_success();
            assert_eq!(log, "ready to talk\n", "{object}");
            let program = ["exec", object, "--", "cat", "/proc/1/cmdline"];
            let program = shop.kubectl(&program).expect_success();
            assert!(program.starts_with("httpd\0"), "{object}: {program}");
        }
        debugs(&shop, &pod);
        forwards_ports(&shop, &pod);
        forwards_ports(&shop, &format!("service/{position}"));
    }
}

/// A debugging container sees what the application does, on the loopback that they share.
fn debugs(shop: &Namespace<'_>, pod: &str) {
    let look = "tr '\\0' ' ' </proc/1/cmdline; curl -sS -m5 http://127.0.0.1:8080/";
    let debug = ["debug", pod, "-c", "look", "--target=app", "--profile=general"];
    let image = format!("--image={BUSYBOX}");
    let command = [&image, "--image-pull-policy=Never", "--", "sh", "-c", look];
    shop.kubectl(&[&debug[..], &command].concat()).expect_success();
    shop.eventually("the debugging container has looked", || {
        let log = shop.kubectl(&["logs", pod, "-c", "look"]);
        log.success && log.output == "httpd -f -p 8080 -h /tmp hello\n"
    });
}

/// What `kubectl port-forward` leads to.
fn forwards_ports(shop: &Namespace<'_>, object: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut forward = Processes::new(folder.path());
    let kubeconfig = format!("--kubeconfig={}", shop.node.cluster.kubeconfig().display());
    // There is no home folder for its cache.
    let cache = format!("--cache-dir={}", folder.path().join("cache").display());
    let arguments = [&kubeconfig, &cache, "-n", &shop.name, "port-forward", object, ":8080"];
    forward.start("port-forward", &tool("KUBECTL"), &arguments.map(str::to_owned));
    let port = || {
        let log = std::fs::read_to_string(forward.log("port-forward")).unwrap();
        let rest = log.split_once("127.0.0.1:")?.1;
        Some(rest.split_once(' ')?.0.to_owned())
    };
    shop.eventually(&format!("{object} is forwarded: {}", forward.log_tails()), || {
        port().is_some()
    });
    // From the machine itself: there kubectl listens.
    let answer = std::process::Command::new("curl")
        .env_clear()
        .args([
            "-sS",
            "-m10",
            "--noproxy",
            "*",
            &format!("http://127.0.0.1:{}/", port().unwrap()),
        ])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout),
        "hello\n",
        "{object}: {}{answer:?}",
        forward.log_tails()
    );
}

/// A copy that keeps labels and annotations is the pod of the mesh that it was made of. (Of a Deployment's pod, labels
/// are better not kept: the ReplicaSet takes the copy for one of its own, and removes it.)
pub(crate) fn copies_a_pod(mesh: &Mesh) {
    let shop = mesh.namespace("copies");
    shop.apply(&Echo::new("web").bare_pod().to_string());
    shop.wait_for("condition=Ready", "pod/web");
    let image = format!("--image={BUSYBOX}");
    let copy = |keep: &[&str]| {
        let debug = [
            "debug",
            "web",
            "--copy-to=copy",
            "-c",
            "look",
            "--profile=general",
            &image,
        ];
        let command = ["--image-pull-policy=Never", "--", "sleep", "100000"];
        shop.kubectl(&[&debug[..], keep, &command].concat())
    };

    let refusal = copy(&["--keep-labels"]).expect_failure();
    assert!(refusal.contains("--keep-annotations"), "{refusal}");

    copy(&["--keep-labels", "--keep-annotations"]).expect_success();
    shop.wait_for("condition=Ready", "pod/copy");
    let containers = shop.get(&["pod", "copy"])["spec"]["containers"].take();
    let names: Vec<String> = containers
        .as_array()
        .unwrap()
        .iter()
        .map(|c| text(&c["name"]))
        .collect();
    assert_eq!(names, [names::PROXY_CONTAINER, "app", "look"]);
    let (address, id) = (shop.address("copy"), ["-H", "X-Request-Id: to-the-copy"]);
    let reply = shop.call(&format!("http://{address}:8080/"), &id).unwrap();
    assert_eq!(reply.served_by(), "copy");
    shop.logged("copy", &json!({"request_id": "to-the-copy"}));
}

/// A change of the Deployment, and back.
pub(crate) fn rolls_out_and_back(mesh: &Mesh) {
    let shop = mesh.namespace("rollout");
    shop.deploy(&[&Echo::new("web")]);
    for (command, expected) in [
        (
            &["set", "env", "deployment/web", "VERSION=2"][..],
            json!([{"name": "VERSION", "value": "2"}]),
        ),
        (&["rollout", "undo", "deployment/web"], json!(null)),
    ] {
        shop.kubectl(command).expect_success();
        shop.wait_until_served("web");
        shop.eventually("the old pod is to go", || shop.pods("web").len() == 1);
        let name = shop.pod("web");
        let pod = shop.get(&["pod", &name]);
        assert_eq!(container(&pod, "app")["env"], expected);
        assert_eq!(container(&pod, names::PROXY_CONTAINER)["env"], json!(null));
        // The Service's rules follow a moment after its pods.
        shop.eventually("the Service leads to the new pod", || {
            let reply = shop.call_service("web", 8080, "/", &[]);
            reply.is_ok_and(|reply| (reply.status, reply.served_by()) == (200, &*name))
        });
    }
}

fn container<'p>(pod: &'p Value, name: &str) -> &'p Value {
    let mut all = pod["spec"]["containers"].as_array().unwrap().iter();
    all.find(|container| container["name"] == name).unwrap()
}
