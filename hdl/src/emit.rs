//! Emits a block as Verilog: one file per module, a wrapper, a file list, the parameters and the port tables.
//!
//! Texts go into the output directory, or are compared with its files (`gen-rtl`, which is also `ndp rtl`). Files are
//! complete before any of them gets its name, so an interrupted run leaves no half-written file.

use crate::designs::{BLOCKS, BuildError, HBM_BLOCKS, build, build_hbm, packages};
use crate::ip::Manager;
use crate::package::{Source, files, has_generated_name, is_generated};
use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, ValueEnum};
use ndp_config::{DesignConfig, HbmConfig};
use ndp_files::{FileSet, OutputFile, bail, ensure};
use ndp_hdl_language::Design;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Emits the hardware of a configuration as Verilog-2005.
///
/// Writes a file for every distinct module, whose name begins with <block>_<configuration>, <block>_top.v (a wrapper whose name does not
/// depend on the configuration; in a package it is <block>_<configuration>_top.v), diagram.svg (the block diagram), files.f (children first; its head says how tools read it from any folder), <block>_top.sdc (clocks
/// and crossings), params.toml, params.json and params.vh (all parameters) and ports.md (the port table of every module). Needs no other
/// tool.
#[derive(Debug, Parser)]
#[command(
    name = "gen-rtl",
    version,
    after_help = "Example: gen-rtl --config tiny --out rtl --block rank_group\n\n\
        Exit codes: 0 written, or --check found no difference; 1 --check found one; 2 refused argument or configuration; 3 a file or \
        directory that cannot be used, or lost output; 128 + n ended by signal n."
)]
pub struct Args {
    /// Preset, or path of a configuration ending in .toml; for PIM blocks (pim_*) that of an HBM memory
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Directory for the files; created if missing
    #[arg(long, required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Block to emit, with all its children
    #[arg(long, default_value = "ndp_core")]
    block: String,
    /// Prefix of the name of every module
    #[arg(long, default_value = "")]
    prefix: String,
    /// Add Verilator's pragmas: instances of a module share their code, which makes its models smaller and faster
    #[arg(long)]
    sim: bool,
    /// Make a package: a core file or manifest, the licence, and for the core of `tiny` a bench that checks itself
    #[arg(long, value_enum)]
    package: Option<Package>,
    /// List presets, blocks, and the modules of the chosen block with their instance counts
    #[arg(long)]
    list: bool,
    /// Write nothing; fail if the directory does not hold exactly what would be written
    #[arg(long, conflicts_with = "list")]
    check: bool,
}

pub fn main() -> ExitCode {
    ndp_files::program(
        Args::command(),
        std::env::args_os(),
        |args: Args| {
            ndp_files::print(&run(&args)?);
            Ok(0)
        },
        |error| {
            if error.is::<Drift>() {
                1
            } else {
                ndp_files::exit_code(error, |cause| cause.is::<BuildError>())
            }
        },
    )
}

/// Reader of a package.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Package {
    /// FuseSoC
    Fusesoc,
    /// Bender
    Bender,
}

impl From<Package> for Manager {
    fn from(package: Package) -> Self {
        match package {
            Package::Fusesoc => Self::Fusesoc,
            Package::Bender => Self::Bender,
        }
    }
}

/// Files that `--check` finds to differ.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is out of date: {1}")]
pub struct Drift(String, String);

/// Writes or checks; returns the line that says so.
///
/// # Errors
/// [`Drift`], a refused configuration or block, and files that cannot be used.
pub fn run(args: &Args) -> Result<String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let prefix = &args.prefix;
    ensure!(
        prefix.chars().all(legal) && !prefix.starts_with(|c: char| !c.is_ascii_lowercase()),
        "--prefix {prefix}: expected a lower-case letter, then a-z, 0-9 and _"
    );
    // PIM blocks are built from an HBM memory.
    let of_memory = HBM_BLOCKS.contains(&args.block.as_str());
    ensure!(
        of_memory || !HbmConfig::PRESETS.contains(&args.config.as_str()),
        "--config {} is an HBM-PIM memory: expected --block with one of {}, not {}",
        args.config,
        HBM_BLOCKS.join(", "),
        args.block
    );
    let (source, design) = if of_memory {
        let config = HbmConfig::load(&args.config)?;
        let design = build_hbm(&config, &args.block)?;
        (Source::memory(&config, &args.config, &args.block, prefix)?, design)
    } else {
        let config = DesignConfig::load(&args.config)?;
        let design = build(&config, &args.block)?;
        (Source::core(&config, &args.config, &args.block, prefix)?, design)
    };
    let Some(out) = args.out.as_deref().filter(|_| !args.list) else {
        return list(&source.config, &design);
    };
    let files =
        files(&Source { sim: args.sim, manager: args.package.map(Manager::from), ..source }, &design)?;
    if let Some(name) = files.keys().find(|name| name.len() > LONGEST_NAME) {
        let start: String = name.chars().take(20).collect();
        bail!(
            "cannot write the file '{start}...': its name has {} characters, expected at most {LONGEST_NAME}; take a shorter name for \
             the configuration, or a shorter --prefix",
            name.len()
        );
    }
    if args.check {
        check(out, &files)?;
        return Ok(format!("{}: {} files are up to date\n", out.display(), files.len()));
    }
    let own = files.keys().fold(FileSet::new(), |own, name| own.output("--out", out.join(name)));
    own.configuration("the configuration", &args.config).check()?;
    write(out, &files)?;
    let bytes: usize = files.values().map(String::len).sum();
    Ok(format!(
        "{}: {} modules of {}, {} KiB\n",
        out.display(),
        design.modules().len(),
        design.top().name(),
        bytes / 1024
    ))
}

fn list(config: &str, design: &Design) -> Result<String> {
    let mut text = format!("presets: {}\nblocks:  {}\n", DesignConfig::PRESETS.join(", "), BLOCKS.join(", "));
    text += &format!("HBM-PIM memories: {}\n", HbmConfig::PRESETS.join(", "));
    text += &format!("their blocks: {}\n", HBM_BLOCKS.join(", "));
    let packages: Vec<String> =
        packages()?.iter().map(|(preset, block)| format!("{preset}/{block}")).collect();
    text += &format!("packages of a release: {}\n", packages.join(", "));
    text += &format!("\nmodules of {config} / {}:\n", design.top().name());
    for (module, count) in design.instance_counts() {
        text += &format!("{count:>7} x {:<40} {}\n", module.name(), module.doc());
    }
    Ok(text)
}

/// Longest name of a file in bytes: file systems allow 255, and tools append to it.
const LONGEST_NAME: usize = 200;

/// Longest file that is read to see whether this program wrote it.
const MAX_BYTES: u64 = 64 << 20;

fn present(out: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(out).with_context(|| format!("cannot read directory '{}'", out.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read directory '{}'", out.display()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn check(out: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    let mut drift = Vec::new();
    for (name, content) in files {
        match ndp_files::read_text(&out.join(name), content.len() as u64) {
            Ok(found) if found == *content => {}
            Ok(_) => drift.push(format!("{name} differs")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                drift.push(format!("{name} is missing"))
            }
            Err(_) => drift.push(format!("{name} differs")),
        }
    }
    for name in present(out)? {
        if has_generated_name(&name) && !files.contains_key(&name) {
            drift.push(format!("{name} does not belong to this design"));
        }
    }
    if drift.is_empty() { Ok(()) } else { Err(Drift(out.display().to_string(), drift.join(", ")).into()) }
}

fn write(out: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create directory '{}'", out.display()))?;
    let stray: Vec<String> = present(out)?
        .into_iter()
        .filter(|name| has_generated_name(name) && !files.contains_key(name))
        .collect();
    let foreign = |(name, text): &(&String, &String)| {
        let path = out.join(name);
        path.symlink_metadata().is_ok()
            && !ours(&path)
            && ndp_files::read_text(&path, MAX_BYTES).ok().as_ref() != Some(text)
    };
    let overwritten = files.iter().find(foreign).map(|(name, _)| name);
    if let Some(name) = stray.iter().find(|name| !ours(&out.join(name))).or(overwritten) {
        bail!("'{}' holds {name}, which this program did not write; choose another directory", out.display());
    }
    let mut staged = Vec::new();
    for (name, content) in files {
        let path = out.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create directory '{}'", folder.display()))?;
        }
        let mut file = OutputFile::create(&path)?;
        file.write(|to| to.write_all(content.as_bytes()))?;
        staged.push(file);
    }
    staged.into_iter().try_for_each(OutputFile::commit)?;
    for name in stray {
        let path = out.join(name);
        fs::remove_file(&path).with_context(|| format!("cannot remove outdated '{}'", path.display()))?;
    }
    Ok(())
}

fn ours(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    ndp_files::read_text(path, MAX_BYTES).is_ok_and(|text| is_generated(&name, &text))
}
