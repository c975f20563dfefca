//! Writes the files that the benches of `examples/icarus` and `examples/fpga` read: the DRAM before the program, the
//! encoded program, and the result of the functional model in the bursts of each `.dump`.
//!
//! ```sh
//! cargo run --release -p ndp-isa --example icarus_bench            # writes them
//! cargo run --release -p ndp-isa --example icarus_bench -- --check # fails if they differ
//! ```

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use ndp_config::DesignConfig;
use ndp_isa::layout::Burst;
use ndp_isa::machine::{Machine, SparseMemory, dump_bursts, write_data};

/// Folders of the examples, with the configuration of the core: a preset or a file there.
const BENCHES: [(&str, &str); 2] = [("icarus", "tiny"), ("fpga", "ecp5.toml")];

/// 136 hexadecimal digits: address, then the burst with its last word first.
fn line(address: u64, burst: &Burst) -> String {
    let words: String = burst.iter().rev().map(|word| format!("{word:016x}")).collect();
    format!("{address:08x}{words}\n")
}

fn files(
    config: &DesignConfig,
    program: &str,
) -> Result<[(&'static str, String); 3], Box<dyn std::error::Error>> {
    let program = ndp_isa::parse(program)?;
    let mut before = SparseMemory::new();
    program.data.iter().try_for_each(|data| write_data(config, data, &mut before))?;
    let mut machine = Machine::new(config, SparseMemory::new())?;
    machine.run(&program)?;
    let status = machine.status();
    if status.malformed != 0 || machine.unfenced_reads() != 0 {
        return Err(format!("the program is no example: {status:?}").into());
    }
    let data = before.bursts().map(|(address, burst)| line(address, burst)).collect();
    let code = program.words().iter().fold(String::new(), |mut text, word| {
        let _ = writeln!(text, "{word:032x}");
        text
    });
    let mut expected = String::new();
    for address in program.dumps.iter().flat_map(|dump| dump_bursts(config, *dump)) {
        if machine.unspecified(address) != 0 {
            return Err(format!("burst {address:#x} is unspecified").into());
        }
        expected += &line(address, &machine.memory().get(address));
    }
    Ok([("data.hex", data), ("program.hex", code), ("expected.hex", expected)])
}

fn run(check: bool) -> Result<(), Box<dyn std::error::Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (folder, config) in BENCHES {
        let folder = examples.join(folder);
        let program = std::fs::read_to_string(folder.join("program.asm"))?;
        let file = folder.join(config);
        let config =
            DesignConfig::load(if file.exists() { file.to_str().unwrap_or(config) } else { config })?;
        for (name, text) in files(&config, &program)? {
            let path = folder.join(name);
            if !check {
                std::fs::write(&path, &text)?;
            } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                return Err(format!("{} is out of date: run this without --check", path.display()).into());
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("error: {arguments:?}: expected nothing or --check");
            return ExitCode::from(2);
        }
    };
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_bench_are_those_of_the_program() {
        run(true).unwrap_or_else(|error| panic!("{error}"));
    }
}
