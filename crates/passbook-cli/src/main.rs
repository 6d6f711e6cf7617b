//! The `passbook` command.

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    match passbook_cli::run(passbook_cli::Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("passbook: {error}");
            ExitCode::from(2)
        }
    }
}
