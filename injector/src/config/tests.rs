//! Tests of the configuration.
#![allow(clippy::unwrap_used)]

use super::*;

pub(super) fn read(vars: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let vars = vars
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::from_vars(vars, &["OUTRIGGER_PROXY_IMAGE".to_owned()])
}

pub(super) fn lines(vars: &[(&str, &str)]) -> Vec<String> {
    read(vars).unwrap_err().to_string().lines().map(str::to_owned).collect()
}

#[test]
fn reads_the_documented_defaults() {
    let Config { server, injection } = read(&[]).unwrap();
    assert_eq!(server.listen, "[::]:8443".parse().unwrap());
    assert_eq!(server.admin_listen, "[::]:8080".parse().unwrap());
    assert_eq!(
        (server.certificate, server.workers, server.kubeconfig),
        (None, None, None)
    );
    assert_eq!(server.reload_interval, Duration::from_secs(10));
    assert_eq!(
        (server.drain_delay, server.drain_timeout),
        (Duration::from_secs(5), Duration::from_secs(20))
    );
    assert_eq!(server.body_timeout, Duration::from_secs(10));
    assert_eq!((server.max_body_bytes, server.max_in_flight_bytes), (7 << 20, 64 << 20));
    assert_eq!(
        server.log,
        LogConfig {
            filter: "info,actix_server=warn".into(),
            format: LogFormat::Text,
            color: true
        }
    );
    assert_eq!(injection.release_namespace, "outrigger-system");
    assert!(!injection.inject_by_default);
    assert!(injection.excluded_namespaces.is_empty() && injection.setting_defaults.is_empty());
}

/// A row that no field reads, or a field that has no row, fails here.
#[test]
#[allow(clippy::too_many_lines)] // A line a variable.
fn every_variable_reaches_its_field() {
    let set = VARIABLES
        .iter()
        .map(|variable| (variable.name.to_owned(), variable.name.to_owned()));
    let raw: Raw = envy::prefixed(ENV_PREFIX).from_iter(set).unwrap();
    let Raw {
        listen,
        admin_listen,
        cert_file,
        key_file,
        reload_interval,
        log,
        log_format,
        ..
    } = &raw;
    let Raw {
        cert_secret,
        cert_names,
        webhook_configuration,
        lease,
        pod_name,
        ..
    } = &raw;
    let Raw {
        cert_lifetime,
        ca_lifetime,
        ca_overlap,
        cluster_role,
        ..
    } = &raw;
    let Raw {
        signer_secret,
        signer_mode,
        signer_leaf_lifetime,
        signer_ca_lifetime,
        signer_overlap,
        signer_key_type,
        ..
    } = &raw;
    let Raw {
        workers,
        drain_delay,
        drain_timeout,
        body_timeout,
        max_body_bytes,
        ..
    } = &raw;
    let Raw {
        max_in_flight_bytes,
        release_namespace,
        excluded_namespaces,
        inject_default,
        ..
    } = &raw;
    let Raw {
        templates_dir,
        requirements_file,
        watch_services,
        kubeconfig,
        ..
    } = &raw;
    let fields = [
        listen,
        admin_listen,
        cert_file,
        key_file,
        cert_secret,
        cert_names,
        webhook_configuration,
        lease,
        pod_name,
        cert_lifetime,
        ca_lifetime,
        ca_overlap,
        signer_secret,
        signer_mode,
        signer_leaf_lifetime,
        signer_ca_lifetime,
        signer_overlap,
        signer_key_type,
        cluster_role,
        reload_interval,
        log,
        log_format,
        workers,
        drain_delay,
        drain_timeout,
        body_timeout,
        max_body_bytes,
        max_in_flight_bytes,
        release_namespace,
        excluded_namespaces,
        inject_default,
        templates_dir,
        requirements_file,
        watch_services,
        kubeconfig,
    ];
    let names: Vec<_> = VARIABLES
        .iter()
        .map(|variable| Some(variable.name.to_owned()))
        .collect();
    assert_eq!(fields.into_iter().cloned().collect::<Vec<_>>(), names);
}

#[test]
fn services_are_watched_unless_that_is_switched_off() {
    let watched = |vars: &[(&str, &str)]| read(vars).unwrap().server.watch_services;
    assert!(watched(&[]));
    assert!(!watched(&[("OUTRIGGER_WATCH_SERVICES", "disabled")]));
}

#[test]
fn reads_every_value() {
    let Config { server, injection } = read(&[
        ("OUTRIGGER_LISTEN", "127.0.0.1:1"),
        ("OUTRIGGER_ADMIN_LISTEN", "[::1]:2"),
        ("OUTRIGGER_CERT_FILE", "/tls/tls.crt"),
        ("OUTRIGGER_KEY_FILE", "/tls/tls.key"),
        ("OUTRIGGER_RELOAD_INTERVAL", "500ms"),
        ("OUTRIGGER_LOG", "debug"),
        ("OUTRIGGER_LOG_FORMAT", "json"),
        ("OUTRIGGER_WORKERS", "3"),
        ("OUTRIGGER_DRAIN_DELAY", "0s"),
        ("OUTRIGGER_DRAIN_TIMEOUT", "2m"),
        ("OUTRIGGER_BODY_TIMEOUT", "1500ms"),
        ("OUTRIGGER_MAX_BODY_BYTES", "2Mi"),
        ("OUTRIGGER_MAX_IN_FLIGHT_BYTES", "4194304"),
        ("OUTRIGGER_RELEASE_NAMESPACE", "mesh"),
        ("OUTRIGGER_EXCLUDED_NAMESPACES", "a, b-1"),
        ("OUTRIGGER_INJECT_DEFAULT", "Enabled"),
        ("OUTRIGGER_TEMPLATES_DIR", "/templates"),
        ("OUTRIGGER_REQUIREMENTS_FILE", "/requirements.yaml"),
        ("OUTRIGGER_KUBECONFIG", "/kubeconfig"),
        ("OUTRIGGER_PROXY_IMAGE", "nginx"),
        ("HOME", "/"),
    ])
    .unwrap();
    let files = CertificateFiles {
        certificate: "/tls/tls.crt".into(),
        key: "/tls/tls.key".into(),
    };
    let files = CertificateSource::Files(files);
    assert_eq!(server.listen, "127.0.0.1:1".parse().unwrap());
    assert_eq!(server.admin_listen, "[::1]:2".parse().unwrap());
    assert_eq!((server.certificate, server.workers), (Some(files), Some(3)));
    assert_eq!(server.reload_interval, Duration::from_millis(500));
    assert_eq!(
        server.log,
        LogConfig {
            filter: "debug".into(),
            format: LogFormat::Json,
            color: true
        }
    );
    assert_eq!(
        (server.drain_delay, server.drain_timeout),
        (Duration::ZERO, Duration::from_mins(2))
    );
    assert_eq!(server.body_timeout, Duration::from_millis(1500));
    assert_eq!((server.max_body_bytes, server.max_in_flight_bytes), (2 << 20, 4 << 20));
    assert_eq!(server.kubeconfig, Some("/kubeconfig".into()));
    assert_eq!(injection.release_namespace, "mesh");
    assert_eq!(
        injection.excluded_namespaces,
        BTreeSet::from(["a".into(), "b-1".into()])
    );
    assert!(injection.inject_by_default);
    let files = (injection.templates_dir, injection.requirements_file);
    assert_eq!(files, (Some("/templates".into()), Some("/requirements.yaml".into())));
    assert_eq!(
        injection.setting_defaults,
        BTreeMap::from([("OUTRIGGER_PROXY_IMAGE".into(), "nginx".into())])
    );
}

#[test]
fn takes_an_empty_value_for_unset() {
    let empty = VARIABLES
        .iter()
        .map(|variable| (variable.name, " "))
        .chain([("OUTRIGGER_PROXY_IMAGE", "")]);
    assert_eq!(read(&empty.collect::<Vec<_>>()), read(&[]));
}

#[test]
fn colours_are_the_users_choice() {
    let color = |value| read(&[("NO_COLOR", value)]).unwrap().server.log.color;
    assert_eq!((color(""), color("1"), color("0")), (true, false, false));
}

#[test]
fn lists_all_errors_at_once() {
    let found = lines(&[
        ("OUTRIGGER_LISTEN", "8443"),
        ("OUTRIGGER_CERT_FILE", "/tls/tls.crt"),
        ("OUTRIGGER_WORKERS", "0"),
        ("OUTRIGGER_INJECT_DEFAULT", "yes"),
        ("OUTRIGGER_LOG_FROMAT", "json"),
    ]);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(
        found[0],
        "OUTRIGGER_LOG_FROMAT is not a variable of Outrigger; did you mean OUTRIGGER_LOG_FORMAT?; unset or rename it"
    );
    assert_eq!(
        found[1],
        "OUTRIGGER_INJECT_DEFAULT is \"yes\": expected enabled or disabled"
    );
    assert!(found[2].starts_with("OUTRIGGER_LISTEN is \"8443\": expected an IP address and a port"));
    assert!(found[3].starts_with("OUTRIGGER_CERT_FILE is set but OUTRIGGER_KEY_FILE is not"));
    assert_eq!(found[4], "OUTRIGGER_WORKERS is \"0\": expected a number from 1 to 512");
}

#[test]
fn rejects_values_out_of_bounds() {
    for (name, values) in [
        (
            "OUTRIGGER_BODY_TIMEOUT",
            &["10", "-1s", "1s ago", "0s", "99ms", "2h", "1d", "10 sec onds"] as &[&str],
        ),
        (
            "OUTRIGGER_MAX_BODY_BYTES",
            &[
                "0",
                "-1",
                "1023",
                "+4096",
                "1.5Mi",
                "7MB",
                "4Gi",
                "99999999999999999999Gi",
            ],
        ),
        ("OUTRIGGER_WORKERS", &["513", "two", "1.0"]),
        (
            "OUTRIGGER_RELEASE_NAMESPACE",
            &["A", "a_b", "-a", "a-", "a.b", "../x", "ü"],
        ),
        ("OUTRIGGER_EXCLUDED_NAMESPACES", &["a,", "a b", ","]),
        ("OUTRIGGER_LOG_FORMAT", &["yaml"]),
        ("OUTRIGGER_CERT_SECRET", &["A", "a/b", "-", "a..b"]),
        ("OUTRIGGER_WEBHOOK_CONFIGURATION", &["a_b"]),
        ("OUTRIGGER_LEASE", &["a,b"]),
        ("OUTRIGGER_POD_NAME", &["a b"]),
        (
            "OUTRIGGER_CERT_NAMES",
            &["a,", "*.svc", "a b", "https://a", "10.0.0.1:443", "ü"],
        ),
        (
            "OUTRIGGER_CERT_LIFETIME",
            &["90d", "59s", "1h 500ms", "900000h", "2160"],
        ),
        ("OUTRIGGER_CA_LIFETIME", &["876001h", "-1h"]),
        ("OUTRIGGER_CA_OVERLAP", &["0s", "999ms", "25h"]),
        ("OUTRIGGER_SIGNER_SECRET", &["A"]),
        ("OUTRIGGER_SIGNER_MODE", &["cert-manager"]),
        ("OUTRIGGER_SIGNER_LEAF_LIFETIME", &["59m", "2185h"]),
        ("OUTRIGGER_SIGNER_CA_LIFETIME", &["876001h"]),
        ("OUTRIGGER_SIGNER_OVERLAP", &["0s"]),
        ("OUTRIGGER_SIGNER_KEY_TYPE", &["rsa", "ecdsap256"]),
        ("OUTRIGGER_CLUSTER_ROLE", &["system:x"]),
    ] {
        for value in values {
            let found = lines(&[(name, value)]);
            assert_eq!(found.len(), 1, "{name}={value}: {found:?}");
            assert!(
                found[0].starts_with(&format!("{name} is {value:?}: expected ")),
                "{found:?}"
            );
        }
    }
}

#[test]
fn suggests_nothing_far_off() {
    let found = lines(&[("OUTRIGGER_BANANA", "1")]);
    assert_eq!(
        found,
        ["OUTRIGGER_BANANA is not a variable of Outrigger; unset or rename it"]
    );
}

#[test]
fn suggests_variables_of_settings() {
    assert!(lines(&[("OUTRIGGER_PROXYIMAGE", "1")])[0].contains("did you mean OUTRIGGER_PROXY_IMAGE?"));
}

#[test]
fn tells_service_links_from_misspelt_variables() {
    let found = lines(&[
        ("OUTRIGGER_PORT", "tcp://10.0.0.1:443"),
        ("OUTRIGGER_PORT_443_TCP", "tcp://10.0.0.1:443"),
        ("OUTRIGGER_PORT_443_TCP_ADDR", "10.0.0.1"),
        ("OUTRIGGER_SERVICE_HOST", "10.0.0.1"),
        ("OUTRIGGER_SERVICE_PORT_HTTPS", "443"),
        ("OUTRIGGER_WEBHOOK_SERVICE_PORT", "443"),
        ("OUTRIGGER_LISTEN_PORT", "8443"),
    ]);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("OUTRIGGER_LISTEN_PORT is not a variable"));
    assert!(found[1].starts_with("OUTRIGGER_PORT, OUTRIGGER_PORT_443_TCP, "));
    assert!(found[1].contains("OUTRIGGER_WEBHOOK_SERVICE_PORT look like"));
    assert!(found[1].ends_with("set enableServiceLinks: false in the pod's spec"));
}

#[test]
fn refuses_a_budget_that_one_body_could_use_up() {
    let found = lines(&[("OUTRIGGER_MAX_BODY_BYTES", "40Mi")]);
    let sentence = "OUTRIGGER_MAX_IN_FLIGHT_BYTES is 67108864 bytes: expected at least 83886080, twice \
                    OUTRIGGER_MAX_BODY_BYTES";
    assert_eq!(found, [sentence]);
}

#[test]
fn every_default_parses_and_every_variable_is_explained() {
    for variable in VARIABLES {
        assert!(
            variable.name.starts_with(ENV_PREFIX) && variable.help.ends_with('.'),
            "{variable}"
        );
        if let Some(default) = variable.default {
            assert!(read(&[(variable.name, default)]).is_ok(), "{variable}={default}");
        }
    }
}
