//! The images that a node knows: built without a registry, imported, never pulled.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::enclosure::Enclosure;
use crate::cluster::processes::{Processes, wait};
use crate::cluster::tools::tool_file;
use crate::cluster::{Answer, tool};

/// Outrigger as it is built for the tests, with nft, as the user 65532.
pub(crate) const OUTRIGGER: &str = "outrigger.test/outrigger:dev";
/// The nginx that the proxy needs, as the user 101, with a shell.
pub(crate) const NGINX: &str = "outrigger.test/nginx:1";
/// For the pods of tests: a shell with the usual commands, httpd, nc, and curl.
pub(crate) const BUSYBOX: &str = "outrigger.test/busybox:1";

/// The program of `tests/echo`: an application, and a client that counts.
pub(crate) const ECHO: &str = "outrigger.test/echo:1";

/// Arguments of Helm by which the chart uses these images.
pub(crate) const VALUES: [&str; 5] = [
    "--set=image.repository=outrigger.test/outrigger",
    "--set=image.tag=dev",
    "--set=image.digest=",
    "--set=image.pullPolicy=Never",
    "--set=settings.proxyImage=outrigger.test/nginx:1",
];

/// Archives that are built beforehand, by `tests/cluster/images/build`.
const ARCHIVES: [&str; 5] = ["pause.tar", "coredns.tar", "busybox.tar", "nginx.tar", "echo.tar"];

/// Imports all images, once containerd answers.
pub(crate) fn import_all(enclosure: &Enclosure, containerd: &Processes) -> Result<(), String> {
    let outrigger = build_outrigger(&enclosure.folder())?;
    wait(&[containerd], "containerd answers", || {
        ctr(enclosure, &[OsStr::new("version")]).success
    })?;
    for archive in ARCHIVES {
        import(enclosure, &tool_file("TEST_IMAGES", archive))?;
    }
    import(enclosure, &outrigger)
}

/// Imports the images of an archive.
pub(crate) fn import(enclosure: &Enclosure, archive: &Path) -> Result<(), String> {
    let words = ["-n", "k8s.io", "images", "import"].map(OsStr::new);
    let answer = ctr(enclosure, &[&words[..], &[archive.as_os_str()]].concat());
    if answer.success {
        Ok(())
    } else {
        Err(format!("cannot import {}: {}", archive.display(), answer.errors))
    }
}

fn ctr(enclosure: &Enclosure, arguments: &[&OsStr]) -> Answer {
    let mut command = enclosure.inside(tool("CTR").as_os_str());
    command.args(arguments);
    Answer::of(command, "")
}

fn build_outrigger(folder: &Path) -> Result<PathBuf, String> {
    let (program, archive) = (outrigger(), folder.join("outrigger.tar"));
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cluster/images/build"));
    command.arg("outrigger").arg(&program).arg(&archive);
    let answer = Answer::of(command, "");
    if answer.success {
        Ok(archive)
    } else {
        Err(format!(
            "cannot make an image of {}: {}",
            program.display(),
            answer.errors
        ))
    }
}

/// The program as Cargo built it with this test, or for an example the one in the folder above its own.
fn outrigger() -> PathBuf {
    if let Some(program) = option_env!("CARGO_BIN_EXE_outrigger") {
        return PathBuf::from(program);
    }
    let example = std::env::current_exe().expect("a running program has a path");
    let folder = example.parent().and_then(Path::parent).expect("Cargo's folder");
    folder.join("outrigger")
}
