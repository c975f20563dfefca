//! `ndp` from outside, in the project's folder.

use common::Outcome;
pub use ndp_testkit::programs::remarks;
use serde_json::Value;
use std::error::Error;
use std::process::{Command, Output};

/// Arguments are separated by spaces.
pub fn ndp(line: &str) -> Result<Output, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ndp"));
    Ok(command.args(line.split_whitespace()).current_dir(env!("CARGO_MANIFEST_DIR")).output()?)
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON that a successful call prints.
pub fn json(line: &str) -> Result<Value, Box<dyn Error>> {
    let output = ndp(line)?;
    assert!(output.status.success(), "`ndp {line}`: {}", stderr(&output));
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub fn fails(line: &str, code: i32, message: &str) -> Outcome {
    ends(line, &[code], message)
}

/// Runs a command that has to be refused (exit code 2), or that cannot be done here (3).
pub fn refused(line: &str, message: &str) -> Outcome {
    ends(line, &[2, 3], message)
}

fn ends(line: &str, codes: &[i32], message: &str) -> Outcome {
    let output = ndp(line)?;
    let text = stderr(&output);
    assert!(text.contains(message), "`ndp {line}` says\n{text}instead of\n{message}");
    assert!(
        output.status.code().is_some_and(|code| codes.contains(&code)),
        "`ndp {line}`: {:?} {text}",
        output.status
    );
    assert!(!text.contains("panicked"), "{text}");
    Ok(())
}
