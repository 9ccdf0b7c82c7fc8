//! The command line. One file a command; this one holds what they share.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

mod audit;
mod check;
mod cluster;
mod docs;
mod explain;
mod inject;
mod input;
mod redirect;
mod report;
mod requirements;
mod review;
mod serve;
mod templates;
mod trust;
mod verify;

pub use input::load_injector;
pub use redirect::RedirectArgs;

use crate::error::error_chain;

/// Makes a Kubernetes namespace a service mesh with one label.
#[derive(Debug, Parser)]
#[command(name = "outrigger", version, max_term_width = 100)]
#[command(after_help = "Examples:
  outrigger inject -f app.yaml | kubectl apply -f -
  outrigger explain -f app.yaml
  kubectl get deployment web -o yaml | outrigger inject -f -
  outrigger serve")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer the webhooks of an API server.
    Serve,
    /// Add the proxy to the pods of manifests.
    Inject(inject::InjectArgs),
    /// Remove the proxy from the pods of manifests, exactly.
    Uninject(inject::UninjectArgs),
    /// Check the pods of manifests as the validating webhook would.
    Check(check::CheckArgs),
    /// Say which pods of a cluster carry the proxy, lack it, or break a rule.
    Audit(audit::AuditArgs),
    /// Ask a cluster whether the webhooks work.
    Verify(verify::VerifyArgs),
    /// Show or replace the authorities of the mesh.
    Trust(trust::TrustArgs),
    /// Say for each workload what would be done, and where each setting came from.
    Explain(explain::ExplainArgs),
    /// Answer one AdmissionReview: from standard input to standard output.
    Review(review::ReviewArgs),
    /// Show the templates and check one's own.
    Templates(templates::TemplatesArgs),
    /// Write a pod's redirecting rules: what its init container runs.
    Redirect(redirect::RedirectArgs),
    /// Print the requirements of the validating check in other forms.
    Requirements(requirements::RequirementsArgs),
    /// Print the reference of settings and configuration.
    Docs(docs::DocsArgs),
    /// Print completions for a shell.
    ///
    /// Example: outrigger completions bash > /etc/bash_completion.d/outrigger
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What a command ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All went well.
    Success,
    /// A pod was refused or broke a rule.
    Denied,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Success => Self::SUCCESS,
            Status::Denied => Self::from(1),
        }
    }
}

/// The exit code of wrong usage and of input that cannot be read.
pub const UNREADABLE: u8 = 2;

/// Parses the command line and runs the command.
///
/// # Errors
/// Input that cannot be read, or a configuration that cannot be used.
pub fn run() -> anyhow::Result<Status> {
    match parse().command {
        Command::Serve => serve::run(),
        Command::Inject(args) => inject::run(&args),
        Command::Uninject(args) => inject::run_reverse(&args),
        Command::Check(args) => check::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Trust(args) => trust::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Review(args) => review::run(&args),
        Command::Templates(args) => templates::run(&args),
        Command::Redirect(args) => redirect::run(&args),
        Command::Requirements(args) => requirements::run(&args),
        Command::Docs(args) => docs::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "outrigger", &mut script);
            print(&script)
        }
    }
}

/// Parses the arguments; wrong ones end the process with a message and the exit code 2.
fn parse() -> Cli {
    let command = Cli::command();
    let command = match is_plugin() {
        true => command.bin_name("kubectl outrigger"),
        false => command,
    };
    let matches = command.get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Whether kubectl runs this: it starts plugins by a file name with the prefix `kubectl-`.
fn is_plugin() -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_stem();
    name.is_some_and(|name| name.to_string_lossy().starts_with("kubectl-"))
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
fn print(bytes: &[u8]) -> anyhow::Result<Status> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Status::Success),
    }
}

/// Prints an error with its causes to standard error, in colour on a terminal without `NO_COLOR`.
pub fn print_error(error: &anyhow::Error) {
    let mut err = anstream::stderr().lock();
    let text = error_chain(error.as_ref());
    // Nothing can be said when standard error is gone.
    let _ = writeln!(
        err,
        "{}error:{} {}",
        report::RED,
        report::RESET,
        report::without_controls(&text)
    );
}

/// Whether standard input is a terminal, where a command without `-f` would wait for ever.
fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}
