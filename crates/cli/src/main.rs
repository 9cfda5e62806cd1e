//! The command `paceline`. Its code is a library, which the compiler starts on before the crates
//! that it calls are done.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    paceline_cli::main()
}
