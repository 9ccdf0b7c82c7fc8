//! What Outrigger does to a pod, in a few lines: settings, decision, context, template, overlay, patch.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::cache::Cache;
use crate::conflicts::conflicts;
use crate::context::{self, RenderContext};
use crate::decision::{Decision, Policy, SkipReason, Subject, decide};
use crate::error::{Denial, InternalError, MOST_ANNOTATION_BYTES, Outcome};
use crate::names;
use crate::overlay::Overlay;
use crate::patch::Patch;
use crate::pod::{MapValue, PodError, PodView};
use crate::rendered::{Piece, Rendered, json_of};
use crate::requirements::{Requirements, RequirementsError};
use crate::settings::values::{Toggle, is_dns_label, shown};
use crate::settings::{Origin, Resolved, SETTINGS, Setting, SettingError, Settings};
use crate::template::{MOST_OUTPUT, TemplateError, TemplateInfo, TemplateSet};

mod identity;
mod setup;
mod upstreams;
pub use identity::IdentitySource;
pub use setup::{InjectorOptions, SetupError};

/// The configured core: decides on pods and makes their patches. It holds no connection and no
/// file; one is shared by all threads.
#[derive(Debug)]
pub struct Injector {
    policy: Policy,
    base: Resolved,
    templates: TemplateSet,
    requirements: RwLock<Arc<Requirements>>,
    cache: Cache,
    setting_defaults: BTreeMap<String, String>,
}

/// What became of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It gets the proxy: the JSON of an RFC 6902 patch.
    Inject(String),
    /// It stays as it is.
    Skip(SkipReason),
    /// It is refused.
    Deny(Denial),
}

/// A verdict and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// What became of the pod.
    pub verdict: Verdict,
    /// The row of the decision table, as far as it was reached.
    pub row: Option<u8>,
    /// What the user should know besides.
    pub warnings: Vec<String>,
}

impl Injector {
    /// Checks everything that can be checked before the first pod.
    ///
    /// # Errors
    /// A setting, template or requirements file that cannot be used.
    pub fn new(options: InjectorOptions) -> Result<Self, SetupError> {
        let InjectorOptions {
            excluded_namespaces,
            inject_by_default,
            setting_defaults,
            templates,
            requirements,
        } = options;
        let variables: Vec<(&str, String)> = SETTINGS
            .iter()
            .map(|row| (row.key, names::variable_of(row.key)))
            .collect();
        let configured = variables
            .iter()
            .filter_map(|(key, variable)| Some((*key, setting_defaults.get(variable)?.as_str())));
        let default = if inject_by_default {
            Toggle::Enabled
        } else {
            Toggle::Disabled
        };
        let injector = Self {
            policy: Policy {
                excluded_namespaces,
                default,
            },
            base: Resolved::base(configured).map_err(SetupError::Settings)?,
            templates: TemplateSet::new(templates)?,
            requirements: RwLock::new(Arc::new(
                requirements.map_or_else(|| Ok(Requirements::default()), |text| Requirements::parse(&text))?,
            )),
            cache: Cache::default(),
            setting_defaults,
        };
        injector.check_base_template()?;
        crate::samples::check(&injector)?;
        Ok(injector)
    }

    fn check_base_template(&self) -> Result<(), SetupError> {
        self.template(&self.base)
            .map(|_| ())
            .map_err(|error| SetupError::Settings(vec![error]))
    }

    /// The templates.
    #[must_use]
    pub const fn templates(&self) -> &TemplateSet {
        &self.templates
    }

    /// The requirements in force.
    #[must_use]
    pub fn requirements(&self) -> Arc<Requirements> {
        // A panic elsewhere cannot leave them half written: they are replaced whole.
        Arc::clone(&self.requirements.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the requirements of a changed file in force; whether they are others than before. Those
    /// before stay where the file cannot be used.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn replace_requirements(&self, text: &str) -> Result<bool, RequirementsError> {
        if self.requirements().source == text {
            return Ok(false);
        }
        let requirements = Arc::new(Requirements::parse(text)?);
        *self.requirements.write().unwrap_or_else(PoisonError::into_inner) = requirements;
        Ok(true)
    }

    /// The operator's part of the decision.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decides on a pod and makes its patch.
    ///
    /// # Errors
    /// A template that fails on this pod, though it passed the samples.
    pub fn inject(&self, subject: Subject<'_, '_>) -> Result<Injection, InternalError> {
        let Decision {
            row,
            skip,
            mut warnings,
        } = match decide(subject, &self.policy) {
            Ok(decision) => decision,
            Err(errors) => return Ok(Injection::denied(Denial::Settings(errors), None)),
        };
        if let Some(reason) = skip {
            return Ok(Injection {
                verdict: Verdict::Skip(reason),
                row: Some(row),
                warnings,
            });
        }
        match self.patch(subject, &mut warnings)? {
            Ok(patch) => Ok(Injection {
                verdict: Verdict::Inject(patch),
                row: Some(row),
                warnings,
            }),
            Err(denial) => {
                let row = if matches!(denial, Denial::Conflicts(_)) {
                    11
                } else {
                    row
                };
                Ok(Injection {
                    warnings,
                    ..Injection::denied(denial, Some(row))
                })
            }
        }
    }

    fn patch(
        &self,
        subject: Subject<'_, '_>,
        warnings: &mut Vec<String>,
    ) -> Result<Result<String, Denial>, InternalError> {
        let pod = subject.pod;
        let (template, context) = match self.context(subject, warnings)? {
            Ok(made) => made,
            Err(denial) => return Ok(Err(denial)),
        };
        let rendered = self.cache.get_or_make(template.name.as_str(), context, |context| {
            self.render(template, context)
        });
        let rendered = match rendered {
            Ok(rendered) => rendered,
            // Every template passed the samples, so it is the pod's own lists that are too long.
            Err(InternalError::Template(TemplateError::TooMuch { .. })) => {
                return Ok(Err(Denial::TooLarge { bytes: MOST_OUTPUT }));
            }
            Err(error) => return Err(error),
        };
        let conflicts = conflicts(pod, &rendered);
        if !conflicts.is_empty() {
            return Ok(Err(Denial::Conflicts(conflicts)));
        }
        let requirements = self.requirements();
        let defaults = requirements.defaults(pod.labels());
        let defaults: Vec<Piece> = defaults
            .map(|(key, value)| Piece {
                name: key.to_owned(),
                json: json_of(value),
            })
            .collect();
        let patch = Patch::new(pod, &rendered, &defaults);
        let bytes = patch.annotation_bytes() + annotation_bytes(pod);
        if bytes > MOST_ANNOTATION_BYTES {
            return Ok(Err(Denial::TooLarge { bytes }));
        }
        Ok(Ok(patch.to_json()))
    }

    /// What a pod's template is rendered with.
    fn context(
        &self,
        subject: Subject<'_, '_>,
        warnings: &mut Vec<String>,
    ) -> Result<Result<(&TemplateInfo, RenderContext), Denial>, InternalError> {
        let (resolved, template) = match self.resolved(subject) {
            Ok(resolved) => resolved,
            Err(denial) => return Ok(Err(denial)),
        };
        let settings = &resolved.settings;
        let found = self.found(subject, settings, template.mtls, warnings)?;
        let built = context::build(subject.namespace, subject.pod, settings, &found, template.mtls);
        Ok(built.map_err(Denial::Combination).map(|(context, more)| {
            warnings.extend(resolved.warnings);
            warnings.extend(more);
            (template, context)
        }))
    }

    fn resolved(&self, subject: Subject<'_, '_>) -> Result<(Resolved, &TemplateInfo), Denial> {
        readable(subject).map_err(Denial::Pod)?;
        let resolved = self.settings(subject).map_err(Denial::Settings)?;
        let template = self.template(&resolved);
        let template = template.map_err(|error| Denial::Settings(vec![error]))?;
        Ok((resolved, template))
    }

    /// The settings of a pod that says nothing itself.
    #[must_use]
    pub const fn defaults(&self) -> &Settings {
        &self.base.settings
    }

    /// The settings of a pod, each with its origin.
    ///
    /// # Errors
    /// Every value that does not parse.
    pub fn settings(&self, subject: Subject<'_, '_>) -> Result<Resolved, Vec<SettingError>> {
        self.base.overlaid(subject.info, subject.pod)
    }

    /// The text of a setting's value, where `origin` says that it stands.
    #[must_use]
    pub fn value_text(&self, subject: Subject<'_, '_>, row: &Setting, origin: Origin) -> Option<String> {
        let text = match origin {
            Origin::Pod => subject.pod.annotations().get(row.key),
            Origin::Namespace => subject.info.annotations.get(row.key).map(String::as_str),
            Origin::Configuration => self
                .setting_defaults
                .get(&names::variable_of(row.key))
                .map(String::as_str),
            Origin::BuiltIn => Some(row.default).filter(|text| !text.is_empty()),
            Origin::NamespaceLabel | Origin::PodLabel => None,
        };
        text.map(shown)
    }

    fn template(&self, resolved: &Resolved) -> Result<&TemplateInfo, SettingError> {
        let name = resolved
            .settings
            .template
            .as_ref()
            .expect("the table has a default for the template")
            .as_str();
        self.templates.get(name).ok_or_else(|| SettingError {
            origin: resolved.origin_of(names::TEMPLATE),
            key: names::TEMPLATE.to_owned(),
            value: shown(name),
            reason: format!("no such template; there are: {}", self.template_names().join(", ")),
        })
    }

    fn template_names(&self) -> Vec<&str> {
        self.templates.iter().map(|info| info.name.as_str()).collect()
    }

    /// Renders a template and reads what it gave.
    ///
    /// # Errors
    /// It cannot be rendered, or gave no overlay.
    pub fn render(&self, template: &TemplateInfo, context: &RenderContext) -> Result<Arc<Rendered>, InternalError> {
        let text = self.templates.render(template, context)?;
        let overlay = Overlay::parse(&text).map_err(|source| InternalError::Overlay {
            file: template.file.clone(),
            source: Box::new(source),
        })?;
        Ok(Arc::new(Rendered::new(&template.name, &overlay, context)))
    }
}

impl Injection {
    fn denied(denial: Denial, row: Option<u8>) -> Self {
        Self {
            verdict: Verdict::Deny(denial),
            row,
            warnings: Vec::new(),
        }
    }

    /// A pod that could not even be read.
    #[must_use]
    pub fn unreadable(error: PodError) -> Self {
        Self::denied(Denial::Pod(error), None)
    }

    /// The stable word.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match &self.verdict {
            Verdict::Inject(_) => Outcome::INJECTED,
            Verdict::Skip(reason) => (*reason).into(),
            Verdict::Deny(denial) => denial.into(),
        }
    }
}

/// What is needed of a pod that is to be injected: a container, and a namespace whose name is one, since
/// it becomes part of the names of upstreams.
fn readable(subject: Subject<'_, '_>) -> Result<(), PodError> {
    let wrong = |path: &str, message: String| PodError {
        path: path.to_owned(),
        message,
    };
    if subject.pod.containers().is_empty() {
        return Err(wrong("spec.containers", "missing or empty".to_owned()));
    }
    if !is_dns_label(subject.namespace) {
        let message = format!(
            "{} is no name of a namespace: lower-case letters, digits and '-', at most 63 characters",
            shown(subject.namespace)
        );
        return Err(wrong("metadata.namespace", message));
    }
    Ok(())
}

fn annotation_bytes(pod: &PodView<'_>) -> usize {
    let size = |(key, value): (&str, &MapValue<'_>)| match value {
        MapValue::Text(text) => key.len() + text.len(),
        MapValue::Null | MapValue::Other(_) => key.len(),
    };
    pod.annotations().iter().map(size).sum()
}
