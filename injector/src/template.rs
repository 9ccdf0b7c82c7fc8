//! The set of templates: strict handlebars in which every value passes an encoder.
//!
//! A template is never made of a pod's text. Only `{{json x}}` and `{{nginx x}}` print values, and
//! only `if`, `unless` and `each` choose; everything else is refused when the set is built, so that
//! a broken template never serves.

use std::collections::BTreeMap;

use handlebars::Handlebars;
use serde_json::Value;

mod choose;
mod encode;
mod form;

use crate::context::RenderContext;

/// The most that a template may give.
pub const MOST_OUTPUT: usize = 1 << 20;
/// The file of the nginx configuration, which the others use as `nginxConf`.
pub const NGINX_CONF: &str = "nginx.conf.hbs";
/// How the file of a pod template ends; what stands before is its name.
pub const SUFFIX: &str = ".yaml.hbs";
/// The first line of a template whose proxy has an identity.
pub const MTLS_MARK: &str = "# outrigger-template: mtls";

/// The templates that are built in, by file name.
pub const BUILT_IN: [(&str, &str); 3] = [
    (
        "proxy-sidecar.yaml.hbs",
        include_str!("../../proxy-templates/proxy-sidecar.yaml.hbs"),
    ),
    ("mtls.yaml.hbs", include_str!("../../proxy-templates/mtls.yaml.hbs")),
    (NGINX_CONF, include_str!("../../proxy-templates/nginx.conf.hbs")),
];

/// A set of checked templates.
#[derive(Debug)]
pub struct TemplateSet {
    registry: Handlebars<'static>,
    templates: BTreeMap<String, TemplateInfo>,
    nginx_conf: String,
}

/// What is known of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateInfo {
    /// The name that the annotation gives.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Whether it is built in and unchanged.
    pub built_in: bool,
    /// Whether its proxy has an identity and speaks mTLS.
    pub mtls: bool,
    /// Its text.
    pub source: String,
}

/// A template that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It does not parse.
    #[error("{file}: {source}")]
    Syntax {
        /// The file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<handlebars::TemplateError>,
    },
    /// It uses what templates may not use.
    #[error("{file}: {reason}")]
    Form {
        /// The file.
        file: String,
        /// What and why.
        reason: String,
    },
    /// It gives more than [`MOST_OUTPUT`] bytes.
    #[error("{file}: gives more than {MOST_OUTPUT} bytes of output")]
    TooMuch {
        /// The file.
        file: String,
    },
    /// It names a value that is not there.
    #[error("{file}: cannot be rendered: {source}")]
    Render {
        /// The file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<handlebars::RenderError>,
    },
    /// The file's name is none of a template.
    #[error("{file}: a template is called NAME{SUFFIX}, NAME a DNS label, or {NGINX_CONF}")]
    FileName {
        /// The file.
        file: String,
    },
}

impl TemplateSet {
    /// The built-in templates with `files` (name and text) added to them or in their place.
    ///
    /// # Errors
    /// A file that is no template, or one that uses what it may not.
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, TemplateError> {
        let mut sources: BTreeMap<String, (String, bool)> = BUILT_IN
            .iter()
            .map(|(file, text)| ((*file).to_owned(), ((*text).to_owned(), true)))
            .collect();
        sources.extend(files.into_iter().map(|(file, text)| (file, (text, false))));
        let mut set = Self {
            registry: registry(),
            templates: BTreeMap::new(),
            nginx_conf: String::new(),
        };
        for (file, (source, built_in)) in sources {
            set.add(file, source, built_in)?;
        }
        Ok(set)
    }

    fn add(&mut self, file: String, source: String, built_in: bool) -> Result<(), TemplateError> {
        form::check_text(&file, &source)?;
        let template =
            handlebars::Template::compile_with_name(&source, file.clone()).map_err(|e| TemplateError::Syntax {
                file: file.clone(),
                source: Box::new(e),
            })?;
        form::check_elements(&file, &template)?;
        self.registry.register_template(&file, template);
        if file == NGINX_CONF {
            self.nginx_conf = source;
            return Ok(());
        }
        let name = file
            .strip_suffix(SUFFIX)
            .filter(|name| crate::settings::values::is_dns_label(name));
        let name = name
            .ok_or_else(|| TemplateError::FileName { file: file.clone() })?
            .to_owned();
        let mtls = source.lines().next().is_some_and(|line| line.trim_end() == MTLS_MARK);
        self.templates.insert(
            name.clone(),
            TemplateInfo {
                name,
                file,
                built_in,
                mtls,
                source,
            },
        );
        Ok(())
    }

    /// The template called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TemplateInfo> {
        self.templates.get(name)
    }

    /// The text of the template called `name`, or of `nginx.conf`.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&str> {
        let nginx_conf = (name == "nginx.conf").then_some(self.nginx_conf.as_str());
        nginx_conf.or_else(|| self.get(name).map(|info| info.source.as_str()))
    }

    /// All templates, by name.
    pub fn iter(&self) -> impl Iterator<Item = &TemplateInfo> {
        self.templates.values()
    }

    /// The text of the nginx configuration for `context`.
    ///
    /// # Errors
    /// As [`TemplateSet::render`].
    pub fn render_nginx_conf(&self, context: &RenderContext) -> Result<String, TemplateError> {
        self.render_file(NGINX_CONF, &handlebars::Context::from(value_of(context)))
    }

    /// What `template` gives for `context`: YAML of an overlay.
    ///
    /// # Errors
    /// The template names a value that is not there, prints one that its encoder refuses, or gives
    /// more than [`MOST_OUTPUT`] bytes.
    pub fn render(&self, template: &TemplateInfo, context: &RenderContext) -> Result<String, TemplateError> {
        let mut value = value_of(context);
        value["nginxConf"] = Value::String(self.render_nginx_conf(context)?);
        self.render_file(&template.file, &handlebars::Context::from(value))
    }

    fn render_file(&self, file: &str, context: &handlebars::Context) -> Result<String, TemplateError> {
        let mut out = encode::Capped::new(MOST_OUTPUT);
        let rendered = self.registry.render_with_context_to_write(file, context, &mut out);
        let file = || file.to_owned();
        match rendered {
            Ok(()) => Ok(out.into_string()),
            Err(_) if out.full => Err(TemplateError::TooMuch { file: file() }),
            Err(error) => Err(TemplateError::Render {
                file: file(),
                source: Box::new(error),
            }),
        }
    }
}

fn value_of(context: &RenderContext) -> Value {
    serde_json::to_value(context).expect("the context has string keys and finite numbers only")
}

fn registry() -> Handlebars<'static> {
    let mut registry = Handlebars::new();
    registry.set_strict_mode(true);
    registry.set_prevent_indent(true);
    // Nothing is printed but through the helpers, whose output is final.
    registry.register_escape_fn(handlebars::no_escape);
    registry.register_helper("if", Box::new(choose::Choose { wanted: true }));
    registry.register_helper("unless", Box::new(choose::Choose { wanted: false }));
    registry.register_helper("json", Box::new(encode::json_helper));
    registry.register_helper("nginx", Box::new(encode::nginx_helper));
    registry
}
