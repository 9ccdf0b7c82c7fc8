//! Whether a pod is injected: a table whose first row that holds decides.

use crate::names;
use crate::namespace::NamespaceInfo;
use crate::pod::{MapValue, PodView};
use crate::service::View;
use crate::settings::Origin;
use crate::settings::SettingError;
use crate::settings::values::{Toggle, shown, words};
use crate::status::Status;

words! {
    /// Why a pod is left as it is. The words are stable: metrics, audit annotations and reports use them.
    SkipReason {
        /// Row 1.
        NotAPodCreate = "not-a-pod-create",
        /// Row 2.
        SystemNamespace = "system-namespace",
        /// Row 3.
        MirrorPod = "mirror-pod",
        /// Row 4.
        Windows = "windows",
        /// Row 5.
        HostNetwork = "host-network",
        /// Row 6.
        NamespaceDisabled = "namespace-disabled",
        /// Rows 7 and 8.
        PodDisabled = "pod-disabled",
        /// Row 9.
        NamespaceNotEnabled = "namespace-not-enabled",
        /// Row 10.
        AlreadyInjected = "already-injected",
    }
}

impl SkipReason {
    /// The reason as a sentence.
    #[must_use]
    pub fn sentence(self) -> String {
        let switch = names::INJECT;
        match self {
            Self::NotAPodCreate => "only the creation of a pod is acted on".to_owned(),
            Self::SystemNamespace => "the namespace belongs to the system".to_owned(),
            Self::MirrorPod => "it is the API server's image of a static pod".to_owned(),
            Self::Windows => "it runs on Windows".to_owned(),
            Self::HostNetwork => {
                "it uses the node's network (hostNetwork), whose rules are not to be touched".to_owned()
            }
            Self::NamespaceDisabled => format!("the label {switch} of its namespace says disabled"),
            Self::PodDisabled => format!("its label or annotation {switch} says disabled"),
            Self::NamespaceNotEnabled => format!("its namespace is not labelled {switch}=enabled"),
            Self::AlreadyInjected => "it has the proxy already".to_owned(),
        }
    }
}

/// The operator's part of the decision.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Namespaces that are never injected, besides those of Kubernetes.
    pub excluded_namespaces: Vec<String>,
    /// What holds where neither pod nor namespace says anything.
    pub default: Toggle,
}

/// What is decided on.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s, 'a> {
    /// Whether this is the creation of a pod (or a manifest, which is to become one).
    pub is_pod_create: bool,
    /// The request's namespace, never the object's own.
    pub namespace: &'s str,
    /// What is known of that namespace.
    pub info: &'s NamespaceInfo,
    /// The pod.
    pub pod: &'s PodView<'a>,
    /// What is known of the cluster's Services. No row of the table looks at them.
    pub services: View<'s>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The number of the row that decided, 1 to 10; 12 where none of them held.
    pub row: u8,
    /// `None`: inject.
    pub skip: Option<SkipReason>,
    /// What the user should know besides.
    pub warnings: Vec<String>,
}

/// What a row says.
enum Verdict {
    Skip(SkipReason),
    /// Inject, unless the proxy is there already (go to row 10).
    Wanted,
    Invalid(Vec<SettingError>),
}

type Row = fn(&Facts<'_, '_>) -> Option<Verdict>;

/// Rows 1 to 9, in their order.
const ROWS: [(u8, Row); 9] = [
    (1, |f| {
        (!f.subject.is_pod_create).then_some(Verdict::Skip(SkipReason::NotAPodCreate))
    }),
    (2, |f| {
        f.in_system_namespace()
            .then_some(Verdict::Skip(SkipReason::SystemNamespace))
    }),
    (3, |f| {
        f.subject
            .pod
            .annotations()
            .contains(names::MIRROR_POD)
            .then_some(Verdict::Skip(SkipReason::MirrorPod))
    }),
    (4, |f| f.is_windows().then_some(Verdict::Skip(SkipReason::Windows))),
    (5, |f| {
        f.uses_host_network().then_some(Verdict::Skip(SkipReason::HostNetwork))
    }),
    (6, namespace_label),
    (7, |f| f.pod_label()),
    (8, |f| f.pod_annotation()),
    (9, |f| {
        f.nobody_asked()
            .then_some(Verdict::Skip(SkipReason::NamespaceNotEnabled))
    }),
];

/// Decides on a pod by rows 1 to 10.
///
/// # Errors
/// A label or annotation that switches injection has a value that means nothing.
pub fn decide(subject: Subject<'_, '_>, policy: &Policy) -> Result<Decision, Vec<SettingError>> {
    let facts = Facts::new(subject, policy);
    let verdict = ROWS
        .iter()
        .find_map(|(number, row)| row(&facts).map(|verdict| (*number, verdict)));
    let (row, skip) = match verdict {
        Some((_, Verdict::Invalid(errors))) => return Err(errors),
        Some((row, Verdict::Skip(reason))) => (row, Some(reason)),
        Some((row, Verdict::Wanted)) => facts
            .already_injected()
            .map_or((row, None), |reason| (10, Some(reason))),
        None => facts.already_injected().map_or((12, None), |reason| (10, Some(reason))),
    };
    Ok(Decision {
        row,
        skip,
        warnings: facts.warnings(row),
    })
}

/// Whether a namespace takes part in the mesh: whether a pod of it that says nothing is injected.
#[must_use]
pub fn takes_part(namespace: &str, info: &NamespaceInfo, policy: &Policy) -> bool {
    let subject = Subject {
        is_pod_create: true,
        namespace,
        info,
        pod: &PodView::default(),
        services: View::Off,
    };
    decide(subject, policy).is_ok_and(|decision| decision.skip.is_none())
}

/// The subject with its switches read.
struct Facts<'s, 'a> {
    subject: Subject<'s, 'a>,
    policy: &'s Policy,
    namespace: Switch,
    label: Switch,
    annotation: Switch,
}

/// A switch that is not set, set, or set to something else.
type Switch = Result<Option<Toggle>, SettingError>;

impl<'s, 'a> Facts<'s, 'a> {
    fn new(subject: Subject<'s, 'a>, policy: &'s Policy) -> Self {
        let text = subject.info.labels.get(names::INJECT).map(String::as_str);
        Self {
            subject,
            policy,
            namespace: text.map(|t| switch(Origin::NamespaceLabel, t)).transpose(),
            label: pod_switch(Origin::PodLabel, subject.pod.labels().value(names::INJECT)),
            annotation: pod_switch(Origin::Pod, subject.pod.annotations().value(names::INJECT)),
        }
    }

    fn in_system_namespace(&self) -> bool {
        let name = self.subject.namespace;
        names::SYSTEM_NAMESPACES.contains(&name) || self.policy.excluded_namespaces.iter().any(|n| n == name)
    }

    fn is_windows(&self) -> bool {
        let Some(spec) = &self.subject.pod.spec else {
            return false;
        };
        let os = spec.os.as_ref().and_then(|os| os.name.as_deref());
        let selector = spec.node_selector.as_ref();
        let selected = names::OS_LABELS.iter().filter_map(|label| selector?.get(label));
        os.into_iter()
            .chain(selected)
            .any(|os| os.eq_ignore_ascii_case("windows"))
    }

    fn uses_host_network(&self) -> bool {
        self.subject
            .pod
            .spec
            .as_ref()
            .and_then(|s| s.host_network)
            .unwrap_or_default()
    }

    /// Row 7. Whatever the label says, an unreadable annotation beside it is refused too.
    fn pod_label(&self) -> Option<Verdict> {
        let errors: Vec<SettingError> = [&self.label, &self.annotation]
            .into_iter()
            .filter_map(|s| s.clone().err())
            .collect();
        if !errors.is_empty() {
            return Some(Verdict::Invalid(errors));
        }
        toggled(&self.label)
    }

    fn pod_annotation(&self) -> Option<Verdict> {
        toggled(&self.annotation)
    }

    fn nobody_asked(&self) -> bool {
        !matches!(self.namespace, Ok(Some(Toggle::Enabled))) && self.policy.default == Toggle::Disabled
    }

    fn already_injected(&self) -> Option<SkipReason> {
        let status = self
            .subject
            .pod
            .annotations()
            .get(names::STATUS)
            .and_then(Status::parse)?;
        status.holds(self.subject.pod).then_some(SkipReason::AlreadyInjected)
    }

    fn warnings(&self, row: u8) -> Vec<String> {
        // The label wins here too: one that says disabled asks for nothing.
        let asked = match &self.label {
            Ok(None) => matches!(self.annotation, Ok(Some(Toggle::Enabled))),
            label => matches!(label, Ok(Some(Toggle::Enabled))),
        };
        let disagree = matches!((&self.label, &self.annotation), (Ok(Some(a)), Ok(Some(b))) if a != b);
        let mut warnings = Vec::new();
        if row == 5 && asked {
            warnings.push("pod asks for injection but uses hostNetwork: not injected".to_owned());
        }
        if row >= 7 && disagree {
            warnings.push(format!(
                "label and annotation {} disagree: the label wins",
                names::INJECT
            ));
        }
        warnings
    }
}

/// Row 6.
fn namespace_label(facts: &Facts<'_, '_>) -> Option<Verdict> {
    match &facts.namespace {
        Err(error) => Some(Verdict::Invalid(vec![error.clone()])),
        Ok(Some(Toggle::Disabled)) => Some(Verdict::Skip(SkipReason::NamespaceDisabled)),
        Ok(_) => None,
    }
}

fn toggled(switch: &Switch) -> Option<Verdict> {
    match switch {
        Ok(Some(Toggle::Disabled)) => Some(Verdict::Skip(SkipReason::PodDisabled)),
        Ok(Some(Toggle::Enabled)) => Some(Verdict::Wanted),
        _ => None,
    }
}

fn pod_switch(origin: Origin, value: Option<&MapValue<'_>>) -> Switch {
    match value {
        None | Some(MapValue::Null) => Ok(None),
        Some(MapValue::Text(text)) => switch(origin, text).map(Some),
        Some(MapValue::Other(kind)) => Err(SettingError::not_a_string(names::INJECT, kind)),
    }
}

fn switch(origin: Origin, text: &str) -> Result<Toggle, SettingError> {
    text.parse().map_err(|_| SettingError {
        origin,
        key: names::INJECT.to_owned(),
        value: shown(text),
        reason: "expected enabled or disabled (true and false mean the same)".to_owned(),
    })
}
