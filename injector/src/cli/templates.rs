//! `outrigger templates`: what there is, what it says, and whether one's own can be used.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;

use super::input::{config, injector};
use super::report::without_controls;
use super::{Status, load_injector, print};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outrigger templates show proxy-sidecar > my-templates/mine.yaml.hbs")]
pub(super) struct TemplatesArgs {
    #[command(subcommand)]
    command: TemplatesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TemplatesCommand {
    /// List the templates.
    List,
    /// Print a template's text.
    ///
    /// Example: outrigger templates show nginx.conf
    Show {
        /// Its name, or nginx.conf.
        name: String,
    },
    /// Check the templates of a folder: each is rendered for sample pods, with the built-in ones.
    ///
    /// Example: outrigger templates check my-templates/
    Check {
        /// The folder with NAME.yaml.hbs files and perhaps nginx.conf.hbs.
        folder: PathBuf,
    },
}

pub(super) fn run(args: &TemplatesArgs) -> anyhow::Result<Status> {
    match &args.command {
        TemplatesCommand::List => list(),
        TemplatesCommand::Show { name } => show(name),
        TemplatesCommand::Check { folder } => {
            let checked = load_injector(config()?.injection, None, Some(folder))?;
            let own = checked.templates().iter().filter(|template| !template.built_in).count();
            let folder = without_controls(&folder.display().to_string());
            print(format!("{folder}: {own} templates, all of them can be used\n").as_bytes())
        }
    }
}

fn list() -> anyhow::Result<Status> {
    let injector = injector(None)?;
    let text = injector.templates().iter().fold(String::new(), |mut text, template| {
        let origin = if template.built_in { "built in" } else { "added" };
        let kind = if template.mtls { "mTLS" } else { "plain" };
        let _ = writeln!(text, "{:<24} {kind:<6} {origin}", template.name);
        text
    });
    print(text.as_bytes())
}

fn show(name: &str) -> anyhow::Result<Status> {
    let injector = injector(None)?;
    match injector.templates().source(name) {
        Some(source) => print(source.as_bytes()),
        None => {
            let names: Vec<&str> = injector.templates().iter().map(|t| t.name.as_str()).collect();
            bail!("no template {name:?}; there are: {}, nginx.conf", names.join(", "))
        }
    }
}
