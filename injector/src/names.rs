//! Every label, annotation, container, volume and port that Outrigger owns, said once.

/// The prefix of every label and annotation that Outrigger reads or writes.
pub const PREFIX: &str = "outrigger.mesh/";

/// Namespace label, pod label and pod annotation that switch injection on or off.
pub const INJECT: &str = "outrigger.mesh/inject";
/// Annotation: which template is rendered.
pub const TEMPLATE: &str = "outrigger.mesh/template";
/// Annotation: where the proxy stands among the containers.
pub const POSITION: &str = "outrigger.mesh/position";
/// Annotation: how traffic reaches the proxy.
pub const TRAFFIC: &str = "outrigger.mesh/traffic";
/// Annotation: whether plain callers are served beside those with a certificate.
pub const MTLS: &str = "outrigger.mesh/mtls";
/// Annotation: the ports whose inbound traffic passes the proxy.
pub const INBOUND_PORTS: &str = "outrigger.mesh/inbound-ports";
/// Annotation: inbound ports that bypass the proxy.
pub const EXCLUDE_INBOUND_PORTS: &str = "outrigger.mesh/exclude-inbound-ports";
/// Annotation: outbound ports that bypass the proxy.
pub const EXCLUDE_OUTBOUND_PORTS: &str = "outrigger.mesh/exclude-outbound-ports";
/// Annotation: the services that are called through the proxy.
pub const UPSTREAMS: &str = "outrigger.mesh/upstreams";
/// Annotation: namespaces in which `upstreams: auto` looks for services.
pub const UPSTREAM_NAMESPACES: &str = "outrigger.mesh/upstream-namespaces";
/// Annotation: how the kubelet's probes pass the proxy under strict mTLS.
pub const PROBES: &str = "outrigger.mesh/probes";
/// Annotation: the identities that may call the pod.
pub const ALLOW_FROM: &str = "outrigger.mesh/allow-from";
/// Annotation: the image of the proxy.
pub const PROXY_IMAGE: &str = "outrigger.mesh/proxy-image";
/// Annotation: the proxy's CPU request.
pub const PROXY_CPU_REQUEST: &str = "outrigger.mesh/proxy-cpu-request";
/// Annotation: the proxy's CPU limit.
pub const PROXY_CPU_LIMIT: &str = "outrigger.mesh/proxy-cpu-limit";
/// Annotation: the proxy's memory request.
pub const PROXY_MEMORY_REQUEST: &str = "outrigger.mesh/proxy-memory-request";
/// Annotation: the proxy's memory limit.
pub const PROXY_MEMORY_LIMIT: &str = "outrigger.mesh/proxy-memory-limit";
/// Annotation: the level of the proxy's error log.
pub const PROXY_LOG_LEVEL: &str = "outrigger.mesh/proxy-log-level";
/// Annotation: a TLS Secret to use in place of a pod certificate.
pub const IDENTITY_SECRET: &str = "outrigger.mesh/identity-secret";
/// Annotation that Outrigger writes: the rendered nginx configuration.
pub const NGINX_CONF: &str = "outrigger.mesh/nginx.conf";
/// Annotation that Outrigger writes: what was added, as JSON.
pub const STATUS: &str = "outrigger.mesh/status";

/// The field manager of all that the server writes.
pub const FIELD_MANAGER: &str = "outrigger";
/// Annotation of the Secret with the server's certificates: what to make anew at once.
pub const ROTATE: &str = "outrigger.mesh/rotate";
/// Annotation of the webhook configurations: the chart's mode of certificates, and so who writes `caBundle`.
pub const CERTIFICATES_MODE: &str = "outrigger.mesh/certificates";
/// Its value where the server does.
pub const SELF_MANAGED: &str = "self-managed";

/// The operator's settings, which no annotation can change. They have names of the same form so
/// that one table serves both; only their environment variables exist.
pub mod operator {
    /// The image whose `outrigger redirect` writes the redirecting rules.
    pub const REDIRECT_IMAGE: &str = "outrigger.mesh/redirect-image";
    /// The trust domain of the mesh's identities.
    pub const TRUST_DOMAIN: &str = "outrigger.mesh/trust-domain";
    /// The DNS domain of the cluster's services.
    pub const CLUSTER_DOMAIN: &str = "outrigger.mesh/cluster-domain";
    /// The name or address of the cluster's DNS server.
    pub const RESOLVER: &str = "outrigger.mesh/resolver";
    /// The IP families on which the proxy listens.
    pub const IP_FAMILIES: &str = "outrigger.mesh/ip-families";
    /// The most ports that `upstreams: auto` finds for a pod.
    pub const AUTO_UPSTREAMS_LIMIT: &str = "outrigger.mesh/auto-upstreams-limit";
}

/// The annotations that only Outrigger writes.
pub const WRITTEN: [&str; 2] = [NGINX_CONF, STATUS];

/// kubectl's annotation for the container that `logs` and `exec` take by default.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// The kubelet's annotation on the API server's image of a static pod.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// The label with a namespace's own name, set by the API server.
pub const METADATA_NAME: &str = "kubernetes.io/metadata.name";
/// Node labels that carry the operating system: today's and the old one.
pub const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
/// The namespaces of Kubernetes itself, never injected.
pub const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The proxy's container.
pub const PROXY_CONTAINER: &str = "proxy-sidecar";
/// The init container that writes the redirecting rules.
pub const REDIRECT_CONTAINER: &str = "proxy-redirect";
/// The volume with the rendered nginx.conf.
pub const CONFIG_VOLUME: &str = "outrigger-config";
/// The volume with the proxy's certificate and the trust bundle.
pub const IDENTITY_VOLUME: &str = "outrigger-identity";
/// The volume for all that nginx writes.
pub const TMP_VOLUME: &str = "outrigger-tmp";

/// The signer of the proxies' certificates (KEP-4317, PodCertificateRequest).
pub const SIGNER: &str = "outrigger.mesh/identity";
/// Annotation of the trust bundle: what each of its authorities does, and how many certificates it has given.
pub const TRUST: &str = "outrigger.mesh/trust";
/// The ClusterTrustBundle with the mesh's roots (KEP-3257). Its name begins with that of the signer.
pub const TRUST_BUNDLE: &str = "outrigger.mesh:identity:outrigger";

/// The uid of the proxy: that of the image nginxinc/nginx-unprivileged.
pub const PROXY_UID: i64 = 101;
/// The port of the proxy's health and status pages.
pub const HEALTH_PORT: u16 = 15021;
/// The first port on which the proxy takes outbound calls.
pub const OUTBOUND_BASE: u16 = 15100;
/// The first port on which the proxy takes inbound calls.
pub const INBOUND_BASE: u16 = 15200;
/// The first loopback port on which inbound TLS is ended.
pub const INBOUND_TLS_BASE: u16 = 15300;
/// The first loopback port on which plain inbound calls of an mTLS proxy are judged.
pub const INBOUND_PLAIN_BASE: u16 = 15400;
/// How many ports each of the ranges above has.
pub const PORTS_IN_RANGE: usize = 100;
/// The first port on which the proxy takes calls of Services that `upstreams: auto` found. (RabbitMQ has the numbers
/// before it.)
pub const FOUND_BASE: u16 = 15700;
/// The most Services' ports that are found: as many as the range has.
pub const MOST_FOUND: u16 = 256;

/// How the names of all entries of the validating webhook end.
pub const VALIDATING_WEBHOOKS: &str = ".validate.outrigger.mesh";

/// The ValidatingAdmissionPolicy with the label rules; its bindings put their action before it.
pub const POLICY: &str = "labels.outrigger.mesh";

/// The prefix of every environment variable of the configuration.
pub const ENV_PREFIX: &str = "OUTRIGGER_";

/// The environment variable that sets the default of the setting `key`:
/// `outrigger.mesh/proxy-image` is `OUTRIGGER_PROXY_IMAGE`.
#[must_use]
pub fn variable_of(key: &str) -> String {
    let name = key.strip_prefix(PREFIX).unwrap_or(key);
    format!("{ENV_PREFIX}{}", name.replace(['-', '.'], "_").to_ascii_uppercase())
}
