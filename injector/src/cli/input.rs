//! Files, standard input and the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::config::{Config, ConfigErrors, InjectionVars};
use crate::inject::{Injector, InjectorOptions};
use crate::manifest::{self, Namespaces, Source};
use crate::names;
use crate::settings::{Resolved, SETTINGS, SettingError};
use crate::yaml;

/// Which manifests are read.
#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Manifests: files, folders (their .yaml, .yml and .json files), or - for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE", default_value = "-")]
    pub(super) files: Vec<PathBuf>,
}

/// Where namespaces and their Services are read from.
#[derive(Debug, clap::Args)]
pub(super) struct NamespaceFile {
    /// Namespace objects: their labels and annotations count as in a cluster. Namespaces among the
    /// manifests count too.
    #[arg(long, value_name = "FILE")]
    pub(super) namespace_file: Option<PathBuf>,
    /// Service objects, in which `upstreams: auto` finds a pod's upstreams, as kubectl get services -A -o yaml prints
    /// them. Services among the manifests count too.
    #[arg(long, value_name = "FILE")]
    pub(super) services_file: Option<PathBuf>,
}

impl Files {
    /// The texts of all files.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Source>> {
        let mut sources = Vec::new();
        for file in &self.files {
            if file.is_dir() {
                for file in manifests_in(file)? {
                    sources.push(read(&file)?);
                }
            } else {
                sources.push(read(file)?);
            }
        }
        Ok(sources)
    }
}

impl NamespaceFile {
    /// The namespaces and Services of the files, if there are any, and then of the manifests.
    pub(super) fn namespaces(&self, manifests: &[manifest::Manifest<'_>]) -> anyhow::Result<Namespaces> {
        let files = self.namespace_file.iter().chain(&self.services_file);
        let sources: Vec<Source> = files.map(|file| read(file)).collect::<anyhow::Result<_>>()?;
        let parsed = manifest::parse(&sources)?;
        Ok(Namespaces::collect(parsed.iter().chain(manifests))?)
    }
}

fn manifests_in(folder: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    let is_manifest = |path: &PathBuf| {
        path.extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
    };
    Ok(paths.into_iter().filter(is_manifest).collect())
}

/// The text of a file, or of standard input for `-`.
pub(super) fn read(file: &Path) -> anyhow::Result<Source> {
    if file.as_os_str() == "-" {
        if super::stdin_is_terminal() {
            bail!("no input: give manifests with -f FILE, or pipe them to standard input");
        }
        return Ok(Source {
            name: "<stdin>".to_owned(),
            text: text("standard input", &stdin_bytes()?)?,
        });
    }
    let name = file.display().to_string();
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    Ok(Source {
        text: text(&name, &bytes)?,
        name,
    })
}

/// Everything on standard input.
pub(super) fn stdin_bytes() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .context("cannot read standard input")?;
    Ok(bytes)
}

fn text(name: &str, bytes: &[u8]) -> anyhow::Result<String> {
    yaml::decode_utf8(bytes)
        .map(str::to_owned)
        .map_err(|error| anyhow::anyhow!("{name}:{error}"))
}

/// The configuration from the environment.
///
/// # Errors
/// Every variable that is unknown or has a value that means nothing.
pub(super) fn config() -> anyhow::Result<Config> {
    let settings: Vec<String> = SETTINGS.iter().map(|row| names::variable_of(row.key)).collect();
    #[allow(clippy::disallowed_methods)] // The one place where the environment is read.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let variables: BTreeMap<String, String> = variables.collect();
    let values = SETTINGS.iter().zip(&settings);
    let set = values.filter_map(|(row, name)| Some((row.key, variables.get(name)?.as_str())));
    let base = Resolved::base(set.filter(|(_, value)| !value.trim().is_empty()));
    match (Config::from_vars(variables.clone(), &settings), base) {
        (Ok(config), Ok(_)) => Ok(config),
        (config, base) => bail!(all_errors(config.err(), &base.err().unwrap_or_default())),
    }
}

/// A line for each error, whichever part of the configuration it is of.
fn all_errors(config: Option<ConfigErrors>, settings: &[SettingError]) -> String {
    let config = config
        .into_iter()
        .flat_map(|errors| errors.0)
        .map(|error| error.to_string());
    let lines: Vec<String> = config.chain(settings.iter().map(ToString::to_string)).collect();
    lines.join("\n")
}

/// The injector that the environment describes, with `requirements` and more `templates` over it.
///
/// # Errors
/// A configuration, template or requirements file that cannot be used.
pub fn load_injector(
    vars: InjectionVars,
    requirements: Option<&Path>,
    templates: Option<&Path>,
) -> anyhow::Result<Injector> {
    let InjectionVars {
        release_namespace,
        excluded_namespaces,
        inject_by_default,
        templates_dir,
        requirements_file,
        setting_defaults,
    } = vars;
    let requirements = requirements.or(requirements_file.as_deref());
    let requirements = requirements
        .map(|file| read(file).map(|s| (s.name, s.text)))
        .transpose()?;
    let options = InjectorOptions {
        excluded_namespaces: excluded_namespaces.into_iter().chain([release_namespace]).collect(),
        inject_by_default,
        setting_defaults,
        templates: templates
            .or(templates_dir.as_deref())
            .map(template_files)
            .transpose()?
            .unwrap_or_default(),
        requirements: requirements.as_ref().map(|(_, text)| text.clone()),
    };
    let name = requirements.map(|(name, _)| name);
    Injector::new(options).map_err(|error| match (&error, name) {
        (crate::inject::SetupError::Requirements(_), Some(name)) => anyhow::anyhow!("{name}: {error}"),
        _ => error.into(),
    })
}

/// The templates of a folder: its `*.hbs` files. Hidden entries are passed over, since a mounted
/// ConfigMap holds its files a second time in one.
pub(super) fn template_files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read the templates in {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if !name.starts_with('.') && name.ends_with(".hbs") {
            files.push((name.to_owned(), read(&path)?.text));
        }
    }
    files.sort();
    Ok(files)
}

/// The injector of an offline command.
pub(super) fn injector(requirements: Option<&Path>) -> anyhow::Result<Injector> {
    load_injector(config()?.injection, requirements, None)
}
