//! `inject` and `uninject`.

use serde_json::{Value, json};

use crate::outrigger::{Folder, command, deployment, finish, namespace, piped, run};

const DENIED: &str = "outrigger.mesh/position: middle";

fn documents(text: &str) -> Vec<Value> {
    let documents = ::outrigger::yaml::parse_stream(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    documents.into_iter().filter_map(|document| document.value).collect()
}

fn containers(document: &Value) -> Vec<&str> {
    let list = document["spec"]["template"]["spec"]["containers"].as_array();
    list.into_iter().flatten().filter_map(|c| c["name"].as_str()).collect()
}

#[test]
fn writes_manifests_to_stdout_and_a_line_an_object_to_stderr() {
    let input = format!(
        "{}---\nkind: Service\napiVersion: v1\nmetadata: {{name: web}}\n",
        deployment("web", "")
    );
    let run = piped(&["inject"], input).exits(0);
    assert_eq!(
        run.report(),
        [
            "Deployment shop/web: injected: the proxy was added",
            "Service web: no-pod: its kind has no pod"
        ]
    );
    let documents = documents(&run.stdout);
    assert_eq!(containers(&documents[0]), ["proxy-sidecar", "app"]);
    assert_eq!(documents[1]["kind"], "Service");
}

#[test]
fn prints_nothing_when_a_pod_is_denied() {
    let input = format!("{}---\n{}", deployment("good", ""), deployment("bad", DENIED));
    for args in [&["inject"][..], &["inject", "-o", "patch"]] {
        let run = piped(args, &input).exits(1);
        assert_eq!(run.stdout, "");
        assert_eq!(run.report().len(), 2);
        assert!(
            run.stderr
                .contains("Deployment shop/bad: bad-setting: pod annotation outrigger.mesh/position: \"middle\"")
        );
    }
}

#[test]
fn prints_nothing_when_one_of_several_files_is_denied_or_broken() {
    let folder = Folder::of(&[
        ("a.yaml", &deployment("a", "")),
        ("b.yaml", &deployment("b", DENIED)),
        ("c.yaml", "a: [\n"),
    ]);
    let [a, b, c] = ["a.yaml", "b.yaml", "c.yaml"].map(|name| folder.file(name));
    let denied = run(&["inject", "-f", &a, "-f", &b]).exits(1);
    assert_eq!(denied.stdout, "");
    run(&["inject", "-f", &a, "-f", &c]).fails_with("c.yaml:line 1");
    run(&["uninject", "-f", &a, "-f", &c]).fails_with("c.yaml:line 1");
}

#[test]
fn reads_files_folders_and_standard_input_in_their_order() {
    let folder = Folder::of(&[
        ("first.yaml", &deployment("first", "")),
        ("many/b.yml", &deployment("b", "")),
        ("many/a.yaml", deployment("a", "").trim_end()),
        (
            "many/c.json",
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}"#,
        ),
        ("many/notes.txt", "a: ["),
    ]);
    let args = [
        "inject",
        "-f",
        &folder.file("first.yaml"),
        "-f",
        &folder.file("many"),
        "-f",
        "-",
    ];
    let run = piped(&args, deployment("last", "")).exits(0);
    let names: Vec<Value> = documents(&run.stdout)
        .iter()
        .map(|d| d["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["first", "a", "b", "c", "last"]);
    assert_eq!(run.report().len(), 5);
}

#[test]
fn patches_apply_to_the_whole_object_and_mean_what_the_manifests_mean() {
    let cron_job = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {jobTemplate: {spec: {template: \
                    {spec: {restartPolicy: Never, containers: [{name: app}]}}}}}\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: app}]}\n";
    let input = format!("{}---\n{cron_job}---\n{pod}", deployment("web", ""));
    let patches = piped(&["inject", "-o", "patch"], &input).exits(0).json();
    let expected = documents(&piped(&["inject"], &input).exits(0).stdout);
    let mut originals = documents(&input);
    assert_eq!(patches.as_array().map(Vec::len), Some(3));
    for ((original, expected), entry) in originals
        .iter_mut()
        .zip(&expected)
        .zip(patches.as_array().into_iter().flatten())
    {
        assert_eq!(entry["kind"], original["kind"]);
        assert_eq!(entry["name"], original["metadata"]["name"]);
        let patch: json_patch::Patch = serde_json::from_value(entry["patch"].clone()).expect("a patch");
        json_patch::patch(original, &patch).expect("it applies to the object");
        assert_eq!(original, expected);
    }
}

#[test]
fn a_template_of_the_command_line_is_the_default() {
    let input = format!(
        "{}---\n{}",
        deployment("a", ""),
        deployment("b", "outrigger.mesh/template: proxy-sidecar")
    );
    let documents = documents(&piped(&["inject", "--template", "mtls"], input).exits(0).stdout);
    let volumes = |d: &Value| d["spec"]["template"]["spec"]["volumes"].to_string();
    assert!(volumes(&documents[0]).contains("outrigger-identity"));
    assert!(!volumes(&documents[1]).contains("outrigger-identity"));
    piped(&["inject", "--template", "none"], deployment("a", ""))
        .fails_with("no such template; there are: mtls, proxy-sidecar");
}

#[test]
fn namespaces_count_from_a_file_and_from_the_manifests() {
    let on = "outrigger.mesh/inject: enabled";
    let last = "outrigger.mesh/position: last";
    for (object, outcome) in [
        (
            namespace("shop", "outrigger.mesh/inject: disabled", ""),
            "namespace-disabled",
        ),
        (namespace("shop", "", ""), "namespace-not-enabled"),
        (namespace("other", "outrigger.mesh/inject: disabled", ""), "injected"),
        (namespace("shop", on, last), "injected"),
        (namespace("shop", "outrigger.mesh/inject: perhaps", ""), "bad-setting"),
    ] {
        let folder = Folder::of(&[("ns.yaml", &object)]);
        let code = i32::from(outcome == "bad-setting");
        let from_file = piped(
            &["inject", "--namespace-file", &folder.file("ns.yaml")],
            deployment("web", ""),
        )
        .exits(code);
        assert!(
            from_file.stderr.contains(&format!("Deployment shop/web: {outcome}: ")),
            "{}",
            from_file.stderr
        );
        let among = piped(&["inject"], format!("{}---\n{object}", deployment("web", ""))).exits(code);
        assert!(
            among.stderr.contains(&format!("Deployment shop/web: {outcome}: ")),
            "{}",
            among.stderr
        );
        if object.contains(last) {
            assert_eq!(containers(&documents(&from_file.stdout)[0]), ["app", "proxy-sidecar"]);
        }
    }
    let bad = Folder::of(&[("ns.yaml", &namespace("shop", "a: 1", ""))]);
    piped(
        &["inject", "--namespace-file", &bad.file("ns.yaml")],
        deployment("web", ""),
    )
    .fails_with("put the value in quotes");
}

const SERVICES: &str = "apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata: {name: orders, namespace: shop}
    spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7, 'fd00::7'], ports: [{name: http, port: 80}]}
  - apiVersion: serving.knative.dev/v1
    kind: Service
    metadata: {name: other, namespace: shop}
    spec: {template: {}}
";

/// Of a file and of the manifests alike; by default nothing is found, which is said where it was asked for.
#[test]
fn services_are_found_in_a_file_and_among_the_manifests() {
    let auto = "outrigger.mesh/upstreams: auto";
    let folder = Folder::of(&[("services.yaml", SERVICES)]);
    let file = ["inject", "--services-file", &folder.file("services.yaml")];
    let found = ["--found=10.96.0.7:80:15700", "--found=[fd00::7]:80:15700"];
    let from_file = piped(&file, deployment("web", auto)).exits(0);
    let among = piped(&["inject"], format!("{}---\n{SERVICES}", deployment("web", auto))).exits(0);
    for run in [from_file, among] {
        let deployment = &documents(&run.stdout)[0];
        let args = &deployment["spec"]["template"]["spec"]["initContainers"][0]["args"];
        let args: Vec<&str> = args
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|arg| arg.as_str())
            .collect();
        assert!(found.iter().all(|arg| args.contains(arg)), "{args:?}");
    }
    let none = piped(&["inject"], deployment("web", auto)).exits(0);
    assert!(none.stderr.contains("no Service is known here"), "{}", none.stderr);
    let explained = piped(
        &["explain", "--services-file", &folder.file("services.yaml")],
        deployment("web", auto),
    )
    .exits(0);
    assert!(
        explained.stdout.contains("  found orders.shop:80 (http)\n"),
        "{}",
        explained.stdout
    );
    let bad = Folder::of(&[("services.yaml", &SERVICES.replace("port: 80", "port: eighty"))]);
    piped(
        &["inject", "--services-file", &bad.file("services.yaml")],
        deployment("web", auto),
    )
    .fails_with("services.yaml: service \"orders\": ");
}

/// Whoever makes Services must not keep the pods of a namespace from starting.
#[test]
fn as_many_as_are_found_fit_with_the_longest_names() {
    let named = |n: usize| {
        let (name, number) = (
            format!("s{n:03}{}", "x".repeat(59)),
            "ports: [{name: http, port: 50000}]",
        );
        format!("---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{{number}}}\n")
    };
    let services: String = (0..300).map(named).collect();
    let auto = "outrigger.mesh/template: mtls";
    let injected = piped(&["inject"], format!("{}{services}", deployment("web", auto))).exits(0);
    let report = &injected.stderr;
    assert!(
        report.contains("auto found 300 ports, of which 256 are called"),
        "{report}"
    );
    let args = &documents(&injected.stdout)[0]["spec"]["template"]["spec"]["initContainers"][0]["args"];
    let found = args.as_array().into_iter().flatten().filter_map(|arg| arg.as_str());
    assert_eq!(found.filter(|arg| arg.starts_with("--found=s")).count(), 256);
}

#[test]
fn uninject_gives_the_original_documents_back() {
    let input = format!("# kept\n{}---\n{}", deployment("web", ""), namespace("a", "", ""));
    let injected = piped(&["inject"], &input).exits(0).stdout;
    assert_eq!(
        piped(&["inject"], &injected).exits(0).stdout,
        injected,
        "a second injection changes nothing"
    );
    let run = piped(&["uninject"], &injected).exits(0);
    assert_eq!(documents(&run.stdout), documents(&input));
    assert_eq!(
        run.report()[0],
        "Deployment shop/web: uninjected: the proxy was removed"
    );
    let again = piped(&["uninject"], &run.stdout).exits(0);
    assert_eq!(again.stdout, run.stdout);
    assert!(again.stderr.contains("not-injected"));
}

#[test]
fn documents_without_a_pod_pass_through_byte_for_byte() {
    let input = "# c\n---\na:   1 # x\r\n---\n\n---\nkind: 'ConfigMap'\n";
    assert_eq!(piped(&["inject"], input).exits(0).stdout, input);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let input: String = (0..200)
        .map(|n| format!("---\n{}", deployment(&format!("d{n}"), "")))
        .collect();
    let folder = Folder::of(&[("all.yaml", &input)]);
    let script = format!(
        "\"{}\" inject -f all.yaml | head -1; echo \"${{PIPESTATUS[0]}}\"",
        env!("CARGO_BIN_EXE_outrigger")
    );
    let mut shell = assert_cmd::Command::new("bash");
    let run = finish(
        shell
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir(folder.path())
            .args(["-c", &script]),
    );
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), ["---", "0"], "{}", run.stderr);
}

#[test]
fn colours_are_for_terminals_alone() {
    let input = format!(
        "{}---\n{}",
        deployment("a", "outrigger.mesh/unknown: x"),
        deployment("b", DENIED)
    );
    assert!(!piped(&["inject"], &input).stderr.contains('\u{1b}'));
    let with = |name: &str| finish(command(&["inject"]).env(name, "1").write_stdin(input.as_bytes()));
    assert!(!with("NO_COLOR").stderr.contains('\u{1b}'));
    assert!(
        with("CLICOLOR_FORCE").stderr.contains("\u{1b}[31mbad-setting\u{1b}[0m"),
        "the test can see colours"
    );
}

#[test]
fn a_strangers_control_characters_do_not_reach_the_terminal() {
    let evil = r#"\e]0;title\a\e[2J\u009b31m\r"#;
    let object = json!({"x": 1}).to_string();
    let input = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: \"{evil}\"\n  namespace: \"{evil}\"\n  annotations: \
         {{\"outrigger.mesh/{evil}\": x, outrigger.mesh/position: \"{evil}\"}}\nspec: {{containers: [{{name: \"{evil}\"}}]}}\n---\n\
         kind: \"{evil}\"\napiVersion: \"{evil}\"\nx: {object}\n\"{evil}\": 1\n\"{evil}\": 2\n"
    );
    let folder = Folder::of(&[("\u{1b}[2J.yaml", &input), ("\u{1b}[31m/broken.yaml", "a: [")]);
    for args in [
        vec!["inject", "-f", "\u{1b}[2J.yaml"],
        vec!["check", "-f", "\u{1b}[2J.yaml"],
        vec!["explain", "-f", "\u{1b}[2J.yaml"],
        vec!["uninject", "-f", "\u{1b}[2J.yaml"],
        vec!["inject", "-f", "\u{1b}[31m"],
        vec!["inject", "-f", "\u{1b}[1m-missing"],
        vec!["inject", "--template", "\u{1b}[1m"],
        vec!["templates", "show", "\u{1b}[1m"],
        vec!["templates", "check", "\u{1b}[31m"],
    ] {
        // Forced colours, so that nothing takes the escape sequences out.
        let run = finish(
            command(&args)
                .env("CLICOLOR_FORCE", "1")
                .current_dir(folder.path())
                .write_stdin(input.as_bytes()),
        );
        let own = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"];
        let said = own.iter().fold(run.stderr.clone(), |text, code| text.replace(code, ""));
        let out = if args[0] == "uninject" { "" } else { &run.stdout };
        for text in [said.as_str(), out] {
            assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{args:?}: {text:?}");
        }
    }
}
