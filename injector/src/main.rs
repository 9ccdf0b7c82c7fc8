//! The program: parse, call, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    match outrigger::cli::run() {
        Ok(status) => status.into(),
        Err(error) => {
            outrigger::cli::print_error(&error);
            ExitCode::from(outrigger::cli::UNREADABLE)
        }
    }
}
