//! `check`, `explain`, `review`, `completions`, `docs` and `--help`.

use base64::prelude::{BASE64_STANDARD, Engine};
use clap::CommandFactory;
use serde_json::{Value, json};

use crate::outrigger::{Folder, deployment, namespace, piped, run};

const UNLABELLED: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {containers: [{name: app}]}\n";

#[test]
fn check_prints_findings_and_exits_1_where_a_pod_would_be_refused() {
    let folder = Folder::of(&[("a.yaml", &format!("{}---\n{UNLABELLED}", deployment("web", "")))]);
    let file = folder.file("a.yaml");
    let text = run(&["check", "-f", &file]).exits(1);
    let line = deployment("web", "").lines().count() + 1;
    assert_eq!(
        text.stdout,
        format!(
            "{file}:{line}: Pod shop/p: deny: requirements: label environment is missing; it has to be one of: dev, prod\n"
        )
    );
    let found = run(&["check", "-f", &file, "-o", "json"]).exits(1).json();
    let message = "label environment is missing; it has to be one of: dev, prod";
    assert_eq!(
        found,
        json!([{"file": file, "line": line, "kind": "Pod", "namespace": "shop", "name": "p", "rule": "requirements",
                "message": message, "action": "deny"}])
    );
}

#[test]
fn check_exits_0_where_nothing_is_refused() {
    let good = piped(&["check", "-o", "json"], deployment("web", "")).exits(0);
    assert_eq!(good.json(), json!([]));
    for (requirements, stdout) in [
        ("labels: [{key: environment, default: dev}]", false),
        ("labels: [{key: environment}]\naction: warn", true),
        ("labels: [{key: environment}]\nnamespaces: {shop: audit}", true),
    ] {
        let folder = Folder::of(&[("r.yaml", requirements)]);
        let run = piped(&["check", "--requirements", &folder.file("r.yaml")], UNLABELLED).exits(0);
        assert_eq!(!run.stdout.is_empty(), stdout, "{requirements}: {}", run.stdout);
    }
}

#[test]
fn check_finds_what_inject_would_deny() {
    let run = piped(&["check"], deployment("web", "outrigger.mesh/position: middle")).exits(1);
    assert!(
        run.stdout
            .starts_with("<stdin>:1: Deployment shop/web: deny: bad-setting: pod annotation outrigger.mesh/position")
    );
}

#[test]
fn explain_names_the_row_and_the_origin_of_each_setting() {
    let folder = Folder::of(&[(
        "ns.yaml",
        &namespace("shop", "outrigger.mesh/inject: enabled", "outrigger.mesh/mtls: strict"),
    )]);
    let args = ["explain", "--namespace-file", &folder.file("ns.yaml")];
    let annotations = "outrigger.mesh/template: mtls, outrigger.mesh/typo: x";
    let text = piped(&args, deployment("web", annotations)).exits(0).stdout;
    for line in [
        "Deployment shop/web",
        "  injected (row 12 of the decision table): the proxy is added",
        "  warning: unknown pod annotation \"outrigger.mesh/typo\"",
        "  outrigger.mesh/template = \"mtls\" (pod annotation)",
        "  outrigger.mesh/mtls = \"strict\" (namespace annotation)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("built-in"), "{text}");
    let all = piped(&[&args[..], &["-a"]].concat(), deployment("web", annotations))
        .exits(0)
        .stdout;
    assert!(
        all.contains("  outrigger.mesh/traffic = \"redirect\" (built-in)\n"),
        "{all}"
    );
    assert!(
        all.contains("  outrigger.mesh/position = not set (built-in)\n"),
        "{all}"
    );
    let settings = ::outrigger::settings::SETTINGS
        .iter()
        .filter(|row| all.contains(&format!("  {} = ", row.key)));
    assert_eq!(settings.count(), ::outrigger::settings::SETTINGS.len());
}

/// The account's name is the pod's own, and reaches no certificate that it does not fit into.
#[test]
fn explain_says_who_the_pod_will_be() {
    let mtls = "outrigger.mesh/template: mtls";
    let secret = format!("{mtls}, outrigger.mesh/identity-secret: mine");
    let long = "a".repeat(65);
    for (annotations, account, expected) in [
        ("", "web", None),
        (
            mtls,
            "web",
            Some(
                "  identity: spiffe://cluster.local/ns/shop/sa/web, by a pod certificate of the signer outrigger.mesh/identity, \
                 for which it waits at the start",
            ),
        ),
        (&secret, "web", Some("  identity: by the Secret mine")),
        (
            mtls,
            &long,
            Some("  identity: none, the pod would not start: the name of the ServiceAccount has 65 characters"),
        ),
    ] {
        let manifest = deployment("web", annotations).replace(
            "containers:",
            &format!("serviceAccountName: {account}\n      containers:"),
        );
        let text = piped(&["explain"], manifest).exits(0).stdout;
        let line = text.lines().find(|line| line.starts_with("  identity:"));
        match expected {
            Some(expected) => assert!(line.is_some_and(|line| line.starts_with(expected)), "{text}"),
            None => assert_eq!(line, None),
        }
    }
}

#[test]
fn explain_exits_0_whatever_it_has_to_say() {
    for (annotations, part) in [
        (
            "outrigger.mesh/inject: disabled",
            "  pod-disabled (row 8 of the decision table): ",
        ),
        (
            "outrigger.mesh/position: middle",
            "  bad-setting (row 12 of the decision table): ",
        ),
        (
            "outrigger.mesh/nginx.conf: x",
            "  name-taken (row 11 of the decision table): ",
        ),
    ] {
        let text = piped(&["explain"], deployment("web", annotations)).exits(0).stdout;
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        piped(&["explain"], "kind: Service\n")
            .exits(0)
            .stdout
            .contains("no-pod")
    );
}

fn review_of(pod: &Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u1", "namespace": "shop", "operation": "CREATE", "object": pod,
        "resource": {"group": "", "version": "v1", "resource": "pods"}}})
    .to_string()
}

#[test]
fn review_answers_for_both_webhooks() {
    let pod = json!({"metadata": {"labels": {"environment": "dev"}}, "spec": {"containers": [{"name": "app"}]}});
    let folder = Folder::of(&[("ns.yaml", &namespace("shop", "outrigger.mesh/inject: enabled", ""))]);
    let of_shop = ["review", "--namespace-file", &folder.file("ns.yaml")];
    let unlabelled = piped(&["review"], review_of(&pod)).exits(0).json();
    assert_eq!(
        unlabelled["response"]["auditAnnotations"]["outcome"],
        "namespace-not-enabled"
    );
    let answer = piped(&of_shop, review_of(&pod)).exits(0).json();
    assert_eq!(
        (&answer["kind"], &answer["response"]["uid"]),
        (&json!("AdmissionReview"), &json!("u1"))
    );
    let patch = answer["response"]["patch"]
        .as_str()
        .and_then(|patch| BASE64_STANDARD.decode(patch).ok());
    let patch: json_patch::Patch = serde_json::from_slice(&patch.expect("base64")).expect("a patch");
    let mut injected = pod.clone();
    json_patch::patch(&mut injected, &patch).expect("it applies");
    let validate = [&of_shop[..], &["--endpoint", "validate"]].concat();
    assert_eq!(
        piped(&validate, review_of(&injected)).exits(0).json()["response"]["allowed"],
        true
    );
    let plain = piped(&validate, review_of(&pod)).exits(0).json();
    assert_eq!(plain["response"]["status"]["code"], 403);
    assert!(
        plain["response"]["status"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("proxy-sidecar is missing"))
    );
}

#[test]
fn review_refuses_what_is_no_review() {
    piped(&["review"], "apiVersion: v1\n").fails_with("the body is no AdmissionReview in JSON");
    piped(&["review"], "{}").fails_with("expected kind AdmissionReview");
    piped(&["review"], "").fails_with("EOF");
    piped(&["review"], review_of(&Value::Null)).exits(0);
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).exits(0).stdout;
        for word in ["uninject", "namespace-file"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_reference_page_is_what_docs_prints() {
    assert_generated("reference.md", &["docs"]);
}

#[test]
fn the_reference_schema_is_what_requirements_prints() {
    assert_generated("requirements.schema.json", &["requirements", "schema"]);
}

/// A file of `docs/` that a command prints.
#[track_caller]
fn assert_generated(file: &str, args: &[&str]) {
    let path = format!("{}/../docs/{file}", env!("CARGO_MANIFEST_DIR"));
    let page = run(args).exits(0).stdout;
    #[allow(clippy::disallowed_methods)] // No configuration of the program: expect-test's switch.
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let remedy = "run `UPDATE_EXPECT=1 cargo test --test cli reference`";
    assert!(kept == page, "docs/{file} is not what the code says: {remedy}");
}

/// Commands without an example: they take no argument, so that their name is the example.
const NO_EXAMPLE: [&[&str]; 2] = [&["serve"], &["templates", "list"]];

fn commands(command: &clap::Command, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for sub in command.get_subcommands() {
        path.push(sub.get_name().to_owned());
        found.push(path.clone());
        commands(sub, path, found);
        path.pop();
    }
}

#[test]
fn the_help_of_every_command_has_an_example_that_parses() {
    let mut found = Vec::new();
    commands(&::outrigger::cli::Cli::command(), &mut Vec::new(), &mut found);
    assert!(found.len() >= 12, "{found:?}");
    for path in found
        .iter()
        .map(|path| path.iter().map(String::as_str).collect::<Vec<_>>())
    {
        let help = run(&[&path[..], &["--help"]].concat()).exits(0).stdout;
        let examples: Vec<&str> = help.lines().filter_map(example).collect();
        let needed = !NO_EXAMPLE.contains(&&path[..]);
        assert!(
            !needed || !examples.is_empty(),
            "outrigger {} has no example:\n{help}",
            path.join(" ")
        );
        for words in examples {
            let parsed = ::outrigger::cli::Cli::command().try_get_matches_from(words.split_whitespace());
            assert!(
                parsed.is_ok(),
                "{words}: {}",
                parsed.err().map(|e| e.to_string()).unwrap_or_default()
            );
        }
    }
}

/// The call of outrigger in a line of an example, without its redirections.
fn example(line: &str) -> Option<&str> {
    let line = line.trim().trim_start_matches("Example: ");
    let call = line.split(" | ").find(|call| call.starts_with("outrigger "))?;
    call.split(['<', '>']).next()
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(
        run(&["--version"]).exits(0).stdout,
        format!("outrigger {}\n", env!("CARGO_PKG_VERSION"))
    );
}
