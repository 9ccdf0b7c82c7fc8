//! Running `nft`, and what its refusals mean.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use crate::names::{TRAFFIC, operator, variable_of};

/// Why the rules are not in force.
#[derive(Debug, thiserror::Error)]
pub(super) enum NftError {
    /// There is no such program.
    #[error(
        "nft is not installed here; proxy-redirect needs Outrigger's own image, which has it: set {}",
        variable_of(operator::REDIRECT_IMAGE)
    )]
    Missing,
    /// It did not run to its end.
    #[error("cannot run nft: {0}; look at the container's limits and security profile")]
    NotRun(#[from] io::Error),
    /// The kernel lets root with NET_ADMIN alone write rules.
    #[error(
        "not allowed to write rules: the container needs to run as root with the capability NET_ADMIN; let the \
         namespace's PodSecurity and the cluster's policies permit that, or set {TRAFFIC}: explicit, which needs \
         neither; nft says: {0}"
    )]
    Forbidden(String),
    /// The kernel lacks what the rules are made of.
    #[error(
        "the node's kernel cannot redirect: it needs to be Linux 5.2 or newer with the modules nft_chain_nat and \
         nft_redir loaded or built in; load them on the node, or set {TRAFFIC}: explicit, which needs no rules; nft \
         says: {0}"
    )]
    Unsupported(String),
    /// Anything else.
    #[error("nft refused the rules, which is a fault of Outrigger's: please report it with this; nft says: {0}")]
    Refused(String),
}

/// Puts the rules in force, all or none.
///
/// # Errors
/// The rules are as they were before; see [`NftError`].
pub(super) fn apply(script: &str) -> Result<(), NftError> {
    let output = run(script).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NftError::Missing,
        _ => NftError::NotRun(error),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = match said.trim() {
        "" => output.status.to_string(),
        said => said.to_owned(),
    };
    Err(meaning(said))
}

fn run(script: &str) -> io::Result<Output> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        // Its words are told apart below.
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = nft.stdin.take().expect("standard input is piped");
    // One that ends without reading says why, or has an exit status.
    let _ = stdin.write_all(script.as_bytes());
    drop(stdin);
    nft.wait_with_output()
}

/// What a refusal means. nft passes the kernel's error on in the words of `strerror`: EPERM without the capability; ENOENT
/// where the chain type `nat` or the expression `redir` is unknown, EOPNOTSUPP or EPROTONOSUPPORT where all of nf_tables is
/// (`nf_tables_api.c`, `nfnetlink.c`). Outrigger's script names no table, chain or file that could be absent otherwise.
fn meaning(said: String) -> NftError {
    const UNSUPPORTED: [&str; 3] = [
        "No such file or directory",
        "Operation not supported",
        "Protocol not supported",
    ];
    if said.contains("Operation not permitted") {
        NftError::Forbidden(said)
    } else if UNSUPPORTED.iter().any(|words| said.contains(words)) {
        NftError::Unsupported(said)
    } else {
        NftError::Refused(said)
    }
}
