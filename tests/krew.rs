//! `kubectl outrigger …`: the plugin manifest is installed by krew itself, and kubectl finds the program.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use tools::tool;

#[path = "support/tools.rs"]
mod tools;

const MANIFEST: &str = include_str!("../.krew.yaml");
const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// A home of its own with kubectl, krew, and the plugin that krew installed there.
struct Home(tempfile::TempDir);

impl Home {
    fn with_plugin() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let archive = home.archive();
        let manifest = home.path("outrigger.yaml");
        std::fs::write(&manifest, released(&archive)).unwrap();
        let arguments = [
            format!("--manifest={}", manifest.display()),
            format!("--archive={}", archive.display()),
        ];
        let installed = home.run(Command::new(tool("KREW")).arg("install").args(arguments));
        assert!(installed.status.success(), "{}", text(&installed.stderr));
        home
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// What `make dist` writes: the program and its licence.
    fn archive(&self) -> PathBuf {
        let archive = self.path("outrigger-linux-amd64.tar.gz");
        let (program, root) = (Path::new(env!("CARGO_BIN_EXE_outrigger")), env!("CARGO_MANIFEST_DIR"));
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&archive);
        tar.arg("-C").arg(program.parent().unwrap()).arg("outrigger");
        tar.arg("-C").arg(Path::new(root).parent().unwrap()).arg("LICENSE");
        assert!(tar.status().unwrap().success());
        archive
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        self.run(Command::new(tool("KUBECTL")).args(arguments))
    }

    fn run(&self, command: &mut Command) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.path(".krew/bin").display());
        command.env_clear().env("HOME", self.0.path()).env("PATH", path);
        command.output().unwrap()
    }
}

/// The manifest as a release publishes it: its two placeholders filled in.
fn released(archive: &Path) -> String {
    let digest = Sha256::digest(std::fs::read(archive).unwrap());
    let digest = digest.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    let lines = MANIFEST.lines().map(|line| match line.split('"').nth(1) {
        Some(address) if line.contains("addURIAndSha") => format!("    uri: {address}\n    sha256: {digest}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect::<String>().replace("{{ .TagName }}", TAG)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn kubectl_runs_the_plugin_that_krew_installed() {
    let home = Home::with_plugin();
    let injected = home.kubectl(&[
        "outrigger",
        "inject",
        "-f",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/shop.yaml"),
    ]);
    assert!(injected.status.success(), "{}", text(&injected.stderr));
    assert!(text(&injected.stdout).contains("name: proxy-sidecar"));
}

/// Whoever types `kubectl outrigger` reads that they should.
#[test]
fn the_plugin_calls_itself_what_the_user_types() {
    let home = Home::with_plugin();
    let help = text(&home.kubectl(&["outrigger", "inject", "--help"]).stdout);
    assert!(help.contains("Usage: kubectl outrigger inject"), "{help}");
    let refused = text(&home.kubectl(&["outrigger", "injekt"]).stderr);
    assert!(refused.contains("Usage: kubectl outrigger"), "{refused}");
}
