//! Programs from files.

use crate::prelude::*;
use ndp_isa::layout::MatrixLayout;
use ndp_isa::{Data, IsaError, Program};

/// Most bursts of data or dumps: 512 MiB.
const MAX_BURSTS: u64 = 1 << 23;
const MAX_TEXT: u64 = 256 << 20;

/// Reads, assembles and checks a program. `allow_malformed` accepts malformed instructions.
pub fn assemble(file: &Path, config: &DesignConfig, allow_malformed: bool) -> Result<Program> {
    let path = file.display();
    let text =
        ndp_files::read_text(file, MAX_TEXT).with_context(|| format!("cannot read program `{path}`"))?;
    let (program, lines) = ndp_isa::parse_with_lines(&text).map_err(|error| {
        let IsaError { line, token, expected } = error;
        refusal!("{path}:{line}: found {token:?}, expected {expected}")
    })?;
    ensure!(!program.code.is_empty(), "{path}: the program has no instructions");
    for (code, line) in program.code.iter().zip(lines).filter(|_| !allow_malformed) {
        code.check(config).map_err(|malformed| {
            let hint = "--allow-malformed runs it anyway";
            refusal!("{path}:{line}: `{code}` is malformed for {}: {malformed} ({hint})", config.name())
        })?;
    }
    for data in &program.data {
        if let Data::Matrix { address, rows, cols, weights, shared, .. } = *data {
            let place = if shared { MatrixLayout::sharing_scales } else { MatrixLayout::with_weights };
            place(config, address, rows, cols, weights)
                .map_err(|error| refusal!("{path}: `{data}`: {error}"))?;
        }
    }
    let data: u64 = program.data.iter().map(size_in_bursts).sum();
    let dumps: u64 = program.dumps.iter().map(|dump| u64::from(dump.bursts)).sum();
    for (what, bursts) in [("data", data), ("dumps", dumps)] {
        ensure!(
            bursts <= MAX_BURSTS,
            "{path}: {bursts} bursts of {what} must be at most {MAX_BURSTS} (512 MiB)"
        );
    }
    Ok(program)
}

/// Approximate size of a directive's data.
fn size_in_bursts(data: &Data) -> u64 {
    match data {
        Data::F16 { values, .. } => values.len() as u64 / 32 + 1,
        Data::U32 { values, .. } => values.len() as u64 / 16 + 1,
        Data::Random { bursts, .. } => (*bursts).into(),
        Data::Matrix { rows, cols, .. } => u64::from(*rows) * u64::from(cols.div_ceil(32)),
    }
}
