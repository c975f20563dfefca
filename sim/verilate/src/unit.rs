//! One Verilator run per design and variant.
//!
//! Each design is built twice: the fast variant without any trace code, and the waves variant whose signals
//! can all be dumped. Tracing keeps signals alive that optimisation would remove, so one model cannot serve
//! both. Which of them runs is decided when a model is opened; compiling is left to `compile`.

use crate::cache::{file_failure, hash, write_if_changed};
use crate::{Entry, Failure, Tools, compile, shims};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Width and style findings belong to the lint of the generator; registers start at zero unless the harness
/// asks for random contents, which needs `--x-initial unique`.
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
/// much, and a third of the speed. Seen with 5.049 and not with 5.006; in between the flag is harmless.
const SCOPED_DFG_SINCE: (u32, u32) = (5, 34);

fn flags(tools: &Tools) -> Vec<&'static str> {
    let newer: &[&str] = if tools.verilator_number >= SCOPED_DFG_SINCE { &["-fno-dfg"] } else { &[] };
    FLAGS.iter().chain(newer).copied().collect()
}

/// One variant of one design.
#[derive(Debug)]
pub struct Unit {
    /// Name of the design, for messages.
    pub name: String,
    /// Where everything of this unit is kept.
    pub dir: PathBuf,
    /// Name of the static library.
    pub library: String,
    /// Whether signals can be dumped.
    pub waves: bool,
    /// Optimisation of what is evaluated every cycle.
    pub opt_level: u32,
    prefix: String,
    top: String,
    verilog: String,
    shim: String,
    key: String,
}

impl Unit {
    /// Plans a variant; nothing is written yet.
    pub fn new(design: &Entry, waves: bool, models_dir: &Path, tools: &Tools) -> Self {
        let identifier = design.identifier() + if waves { "_waves" } else { "" };
        let prefix = format!("V{identifier}");
        let shim = shims::model(design, waves, &prefix);
        let flags = flags(tools).join(" ");
        let compile_key = format!("{} {}", compile::key(), design.opt_level);
        let parts = [
            &prefix,
            &design.verilog,
            &shim,
            &flags,
            &tools.verilator_version,
            &tools.compiler_identity,
            &compile_key,
        ];
        Self {
            name: design.name(),
            dir: models_dir.join(&identifier),
            library: format!("ndp_{identifier}"),
            waves,
            opt_level: design.opt_level,
            key: hash(parts.map(|part| part.as_bytes())),
            prefix,
            top: design.top.clone(),
            verilog: design.verilog.clone(),
            shim,
        }
    }

    /// The same variant for a library of its own in `dir`, with a table of this design alone.
    pub fn alone(design: &Entry, waves: bool, dir: &Path, tools: &Tools) -> Self {
        let mut unit = Self::new(design, waves, dir, tools);
        unit.shim += &shims::table_of_one(design, waves);
        let parts = [&unit.key, &unit.shim, compile::FFI_SOURCES[2].1, &compile::LINK_FLAGS.join(" ")];
        let key = hash(parts.map(str::as_bytes));
        unit.dir = dir.join(format!("{}-{key}", unit.dir.file_name().unwrap_or_default().display()));
        Self { key, ..unit }
    }

    /// Whether the archive on disk was made from the same inputs.
    pub fn is_fresh(&self) -> bool {
        let library = self.dir.join(format!("lib{}.a", self.library));
        library.is_file() && std::fs::read(self.stamp()).is_ok_and(|stamp| stamp == self.key.as_bytes())
    }

    /// Records that the archive is complete.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn set_fresh(&self) -> Result<(), Failure> {
        write_if_changed(&self.stamp(), self.key.as_bytes())
    }

    fn stamp(&self) -> PathBuf {
        self.dir.join("key")
    }

    /// Identifies everything that the compiled model follows from.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Size of the Verilog.
    pub fn verilog_bytes(&self) -> u64 {
        self.verilog.len() as u64
    }

    /// Directory of the generated C++.
    pub fn sources(&self) -> PathBuf {
        self.dir.join("cpp")
    }

    /// Writes the Verilog and the shim, and runs Verilator.
    ///
    /// # Errors
    /// What Verilator says; a file that cannot be written.
    pub fn verilate(&self, tools: &Tools) -> Result<(), Failure> {
        match std::fs::remove_dir_all(&self.dir) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(file_failure("clear", &self.dir, &e));
            }
            _ => {}
        }
        let sources = self.sources();
        std::fs::create_dir_all(&sources).map_err(|e| file_failure("create", &sources, &e))?;
        let verilog = self.dir.join("design.v");
        write_if_changed(&verilog, self.verilog.as_bytes())?;

        let mut command = Command::new(&tools.verilator);
        command.env_remove("VERILATOR_ROOT").args(flags(tools));
        if tools.export_root {
            command.env("VERILATOR_ROOT", &tools.verilator_root);
        }
        if self.waves {
            command.arg("--trace");
        }
        command
            .args(["--prefix", &self.prefix, "--top-module", &self.top, "--Mdir"])
            .arg(&sources)
            .arg(&verilog);
        let output = command.output().map_err(|e| file_failure("run", &tools.verilator, &e))?;
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
