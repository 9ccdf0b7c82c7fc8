//! The rows. The reference page, the environment variables and the parsers all come from here.

use super::Scope::{Operator, Pod, PodAndNamespace};
use super::{Setting, set};
use crate::names::{self, operator};

/// Every setting.
pub static SETTINGS: &[Setting] = &[
    Setting {
        key: names::TEMPLATE,
        scope: PodAndNamespace,
        values: "proxy-sidecar, mtls, or a template that the operator added",
        default: "proxy-sidecar",
        help: "The template that is rendered: plain nginx, nginx with mTLS, or the operator's own.",
        apply: |s, v| set(&mut s.template, v),
    },
    Setting {
        key: names::POSITION,
        scope: PodAndNamespace,
        values: "first, last, native",
        default: "",
        help: "Where the proxy stands: at index 0 of spec.containers, at their end, or as a native sidecar, first of \
               spec.initContainers after proxy-redirect. Not set: native for pods that run to completion, first for all \
               others. With first and last, the traffic of the pod's own init containers is not in the mesh.",
        apply: |s, v| set(&mut s.position, v),
    },
    Setting {
        key: names::TRAFFIC,
        scope: PodAndNamespace,
        values: "redirect, explicit",
        default: "redirect",
        help: "How traffic reaches the proxy: redirect writes nftables rules in an init container with NET_ADMIN; explicit \
               needs no privilege, the Service targets port 15200+n and the application calls 127.0.0.1:15100+n.",
        apply: |s, v| set(&mut s.traffic, v),
    },
    Setting {
        key: names::MTLS,
        scope: PodAndNamespace,
        values: "permissive, strict",
        default: "permissive",
        help: "Whether a pod with the template mtls serves plain callers too, or those with a certificate of the mesh only.",
        apply: |s, v| set(&mut s.mtls, v),
    },
    Setting {
        key: names::INBOUND_PORTS,
        scope: Pod,
        values: "a list of ports, each with an optional protocol: 8080/http, 9000/tcp (http, http2, grpc, tcp)",
        default: "",
        help: "The application's ports that are served through the proxy. Not set: every TCP containerPort, its protocol \
               by the prefix of its name (http, http2, grpc), else tcp.",
        apply: |s, v| set(&mut s.inbound_ports, v),
    },
    Setting {
        key: names::EXCLUDE_INBOUND_PORTS,
        scope: PodAndNamespace,
        values: "a list of ports: 9090, 9091",
        default: "",
        help: "Inbound ports that bypass the proxy.",
        apply: |s, v| set(&mut s.exclude_inbound_ports, v),
    },
    Setting {
        key: names::EXCLUDE_OUTBOUND_PORTS,
        scope: PodAndNamespace,
        values: "a list of ports: 3306",
        default: "",
        help: "Ports of other services that are called without the proxy.",
        apply: |s, v| set(&mut s.exclude_outbound_ports, v),
    },
    Setting {
        key: names::UPSTREAMS,
        scope: PodAndNamespace,
        values: "auto, none, or a YAML list of services",
        default: "",
        help: "The services that are called through the proxy. auto: the HTTP and gRPC ports of the Services in the pod's own \
               namespace, and in upstream-namespaces, as the cluster has them when the pod is created. Not set: auto with the \
               template mtls and redirected traffic, else none.",
        apply: |s, v| set(&mut s.upstreams, v),
    },
    Setting {
        key: names::UPSTREAM_NAMESPACES,
        scope: PodAndNamespace,
        values: "a list of namespaces, or *",
        default: "",
        help: "Where auto looks for Services besides the pod's own namespace, as far as these namespaces take part in the mesh.",
        apply: |s, v| set(&mut s.upstream_namespaces, v),
    },
    Setting {
        key: names::PROBES,
        scope: PodAndNamespace,
        values: "path, node, off",
        default: "path",
        help: "How the kubelet's probes pass under strict mTLS: plain requests on the path of an HTTP probe; besides, other \
               probes from the node's addresses; or not at all. Without strict, all pass through the proxy, save that with \
               redirected traffic TCP probes from the node's addresses reach the application itself, unless off.",
        apply: |s, v| set(&mut s.probes, v),
    },
    Setting {
        key: names::ALLOW_FROM,
        scope: Pod,
        values: "a list of identities: shop/web, shop/*",
        default: "",
        help: "The identities that may call the pod, by namespace and ServiceAccount. Not set: every identity of the mesh.",
        apply: |s, v| set(&mut s.allow_from, v),
    },
    Setting {
        key: names::PROXY_IMAGE,
        scope: PodAndNamespace,
        values: "an image reference",
        default: "nginxinc/nginx-unprivileged:1.30.4",
        help: "The image of the proxy: nginx 1.28 or newer with stream, running as uid 101.",
        apply: |s, v| set(&mut s.proxy_image, v),
    },
    Setting {
        key: names::PROXY_CPU_REQUEST,
        scope: PodAndNamespace,
        values: "a quantity such as 10m",
        default: "10m",
        help: "The proxy's CPU request. One above the limit raises the limit, unless that was set by the same side.",
        apply: |s, v| set(&mut s.proxy_cpu_request, v),
    },
    Setting {
        key: names::PROXY_CPU_LIMIT,
        scope: PodAndNamespace,
        values: "a quantity such as 1",
        default: "1",
        help: "The proxy's CPU limit.",
        apply: |s, v| set(&mut s.proxy_cpu_limit, v),
    },
    Setting {
        key: names::PROXY_MEMORY_REQUEST,
        scope: PodAndNamespace,
        values: "a quantity such as 32Mi",
        default: "32Mi",
        help: "The proxy's memory request.",
        apply: |s, v| set(&mut s.proxy_memory_request, v),
    },
    Setting {
        key: names::PROXY_MEMORY_LIMIT,
        scope: PodAndNamespace,
        values: "a quantity such as 128Mi",
        default: "128Mi",
        help: "The proxy's memory limit.",
        apply: |s, v| set(&mut s.proxy_memory_limit, v),
    },
    Setting {
        key: names::PROXY_LOG_LEVEL,
        scope: PodAndNamespace,
        values: "debug, info, notice, warn, error, crit, alert, emerg",
        default: "warn",
        help: "The level of the proxy's error log.",
        apply: |s, v| set(&mut s.proxy_log_level, v),
    },
    Setting {
        key: names::IDENTITY_SECRET,
        scope: PodAndNamespace,
        values: "the name of a TLS Secret in the pod's namespace",
        default: "",
        help: "A Secret with tls.crt, tls.key and ca.crt that the template mtls mounts in place of a pod certificate, for \
               clusters without PodCertificateRequest.",
        apply: |s, v| set(&mut s.identity_secret, v),
    },
    Setting {
        key: operator::REDIRECT_IMAGE,
        scope: Operator,
        values: "an image reference",
        default: concat!("outrigger:", env!("CARGO_PKG_VERSION")),
        help: "The image of the init container proxy-redirect: Outrigger's own, with nft.",
        apply: |s, v| set(&mut s.redirect_image, v),
    },
    Setting {
        key: operator::TRUST_DOMAIN,
        scope: Operator,
        values: "a DNS name",
        default: "cluster.local",
        help: "The trust domain of the mesh's identities.",
        apply: |s, v| set(&mut s.trust_domain, v),
    },
    Setting {
        key: operator::CLUSTER_DOMAIN,
        scope: Operator,
        values: "a DNS name",
        default: "cluster.local",
        help: "The DNS domain of the cluster's Services.",
        apply: |s, v| set(&mut s.cluster_domain, v),
    },
    Setting {
        key: operator::RESOLVER,
        scope: Operator,
        values: "a DNS name or an IP address",
        default: "",
        help: "The cluster's DNS server, which the proxy asks for the addresses of upstreams. Not set: \
               kube-dns.kube-system.svc in the cluster's domain.",
        apply: |s, v| set(&mut s.resolver, v),
    },
    Setting {
        key: operator::IP_FAMILIES,
        scope: Operator,
        values: "dual, ipv4, ipv6",
        default: "dual",
        help: "The IP families on which the proxy listens; ipv4 where the nodes' kernel has no IPv6, or it is disabled in \
               pods, so that they have no address ::1.",
        apply: |s, v| set(&mut s.ip_families, v),
    },
    Setting {
        key: operator::AUTO_UPSTREAMS_LIMIT,
        scope: Operator,
        values: "a number from 0 to 256",
        default: "256",
        help: "The most ports that auto finds for a pod: those of its own namespace first, then by namespace, Service and \
               port. A warning names the others.",
        apply: |s, v| set(&mut s.auto_upstreams_limit, v),
    },
];
