//! One variant of a model: its sources, by a run of Verilator or from the netlist.
//!
//! Variants do the same: native, without Verilator; Verilated; Verilated from the native one's random contents;
//! Verilated with coverage; Verilated with waves. Tracing keeps signals alive that optimisation would remove, so one
//! model cannot serve both.

use crate::files::{file_failure, hash, write_if_changed};
use crate::{Failure, Rtl, Tools, compile, contents, native, shims};
use std::path::PathBuf;
use std::process::Command;

/// The generator lints width and style. Registers start at zero unless the harness asks for random contents, which
/// needs `--x-initial unique`.
const FLAGS: [&str; 10] = [
    "--cc",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "unique",
    "--no-timing",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
];

/// Newer data-flow optimisers look across instances, so that each of the 256 tiles gets code of its own: four times as
/// much, and a third of the speed. Seen with 5.049, not with 5.006; in between the flag is harmless.
const SCOPED_DFG_SINCE: (u32, u32) = (5, 34);

/// All signals, including arrays. The longest arrays have a word for each digit of the sums of a batch.
const TRACE: [&str; 3] = ["--trace", "--trace-max-array", "64"];

/// All lines, and all bits except of memories and the widest buses: Verilator needs more memory than a machine has.
const COVERAGE: [&str; 4] = ["--coverage-line", "--coverage-toggle", "--coverage-max-width", "256"];

fn flags(variant: Variant, tools: &Tools) -> Vec<&'static str> {
    let newer: &[&str] = if tools.verilator_number >= SCOPED_DFG_SINCE { &["-fno-dfg"] } else { &[] };
    let own: &[&str] = match variant {
        Variant::Waves => &TRACE,
        Variant::Coverage => &COVERAGE,
        _ => &[],
    };
    FLAGS.iter().chain(newer).chain(own).copied().collect()
}

/// Reports a failed property to the class of the model (`shims`).
const PROPERTIES: &str = "`define NDP_PROPERTIES
`define NDP_ASSERT(text) property_failed($sformatf(text))
import \"DPI-C\" function void property_failed(input string text);
";

const PREFIX: &str = "Vmodel";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// C++ from the netlist, with arrays of instances in vectors. A mutant, a changed text, is Verilated instead.
    Native,
    /// Native, with the time counted that each module takes.
    Profiled,
    Verilated,
    /// Verilated, from the native model's random contents.
    Alike,
    /// Verilated, with counts of lines that run and bits that change, without properties.
    Coverage,
    /// Verilated, with all signals in reach of waves.
    Waves,
}

#[derive(Debug)]
pub struct Unit {
    /// Name of the design, for messages.
    pub name: String,
    pub entry: String,
    pub dir: PathBuf,
    /// [`Variant::Native`] only if there is one.
    pub variant: Variant,
    pub opt_level: u32,
    top: String,
    verilog: String,
    shim: String,
    key: String,
}

impl Unit {
    /// Plans a variant; nothing is written yet. Names of configurations are not part of the key: one model serves all
    /// configurations with the same Verilog.
    pub(crate) fn new(
        rtl: &Rtl,
        variant: Variant,
        folder: impl FnOnce(&str) -> PathBuf,
        tools: &Tools,
    ) -> Self {
        let (variant, shim) = match (variant, &rtl.native) {
            (Variant::Native | Variant::Profiled, Some(source)) => (variant, source.clone()),
            (Variant::Waves | Variant::Alike | Variant::Coverage, _) => {
                (variant, shims::model(rtl, variant, PREFIX))
            }
            _ => (Variant::Verilated, shims::model(rtl, Variant::Verilated, PREFIX)),
        };
        let verilog = match variant {
            Variant::Native | Variant::Profiled | Variant::Coverage => rtl.verilog.clone(),
            Variant::Alike => format!("{PROPERTIES}{}", contents::given(&rtl.verilog)),
            Variant::Verilated | Variant::Waves => format!("{PROPERTIES}{}", rtl.verilog),
        };
        let parts = [
            &verilog,
            &shim,
            &format!("{variant:?}"),
            &flags(variant, tools).join(" "),
            &tools.identity,
            &format!("{} {}", compile::key(), rtl.opt_level),
            &compile::LINK_FLAGS.join(" "),
        ];
        let key = hash(parts.map(|part| part.as_bytes()));
        let entry = format!("{}-{key}", rtl.block);
        Self {
            name: rtl.name.clone(),
            dir: folder(&entry),
            entry,
            variant,
            opt_level: rtl.opt_level,
            top: rtl.top.clone(),
            verilog,
            shim,
            key,
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn verilog_bytes(&self) -> u64 {
        self.verilog.len() as u64
    }

    pub fn sources(&self) -> PathBuf {
        self.dir.join("cpp")
    }

    /// Writes the Verilog and the shims, and runs Verilator except for a native model.
    pub fn generate(&self, tools: &Tools) -> Result<(), Failure> {
        let sources = self.sources();
        std::fs::create_dir_all(&sources).map_err(|e| file_failure("create", &sources, &e))?;
        let verilog = self.dir.join("design.v");
        write_if_changed(&verilog, self.verilog.as_bytes())?;
        if matches!(self.variant, Variant::Native | Variant::Profiled) {
            let mut pieces = self.shim.split(native::PIECE);
            let header = pieces.next().unwrap_or_default();
            write_if_changed(&sources.join("native_model.hpp"), header.as_bytes())?;
            for (number, piece) in pieces.enumerate() {
                let piece = format!("#include \"native_model.hpp\"\n{piece}");
                write_if_changed(&sources.join(format!("piece{number}.cpp")), piece.as_bytes())?;
            }
            return Ok(());
        }

        let mut command = Command::new(&tools.verilator);
        command.env_remove("VERILATOR_ROOT").args(flags(self.variant, tools));
        if tools.export_root {
            command.env("VERILATOR_ROOT", &tools.verilator_root);
        }
        command.args(["--prefix", PREFIX, "--top-module", &self.top, "--Mdir"]).arg(&sources).arg(&verilog);
        let output =
            ndp_files::output(&mut command).map_err(|e| file_failure("run", &tools.verilator, &e))?;
        if !output.status.success() {
            let mut lines = vec![format!("Verilator failed on {} ({}):", self.name, verilog.display())];
            let text = String::from_utf8_lossy(&output.stderr);
            let lines_shown = text.lines().filter(|line| !line.starts_with("%Warning")).take(12);
            lines.extend(lines_shown.map(|line| format!("  {line}")));
            return Err(lines);
        }
        write_if_changed(&sources.join(shims::FILE), self.shim.as_bytes())
    }
}
