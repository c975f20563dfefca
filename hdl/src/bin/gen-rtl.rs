//! Emits a block as Verilog: one file per module, a wrapper, a file list, the parameters and the port tables.
//!
//! Elaboration and texts are `ndp_hdl`'s; this file puts them into the output directory or compares them with what is there.
//! Files are complete before any of them gets its name, so an interrupted run leaves no half-written file behind.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::{BLOCKS, HBM_BLOCKS, build, build_hbm};
use ndp_hdl::layer::Design;
use ndp_hdl::package::{Source, files, has_generated_name, is_generated};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Emits the hardware of a configuration as Verilog-2005.
///
/// Writes <module>.v for every distinct module, <block>_top.v (a wrapper whose name does not depend on the configuration), files.f
/// (children first; its head says how tools read it from any folder), params.toml, params.json and params.vh (all parameters) and
/// ports.md (the port table of every module). Needs no other tool.
#[derive(Debug, Parser)]
#[command(
    name = "gen-rtl",
    version,
    after_help = "Example: gen-rtl --config tiny --out rtl --block rank_group"
)]
struct Args {
    /// Preset, or path of a configuration ending in .toml; for blocks of a memory that computes (pim_*) that of a memory
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Directory for the files; created if missing
    #[arg(long, required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Block to emit, with everything below it
    #[arg(long, default_value = "ndp_core")]
    block: String,
    /// What the name of every module begins with
    #[arg(long, default_value = "")]
    prefix: String,
    /// Lists presets, blocks, and the modules of the chosen block with their instance counts
    #[arg(long)]
    list: bool,
    /// Writes nothing; fails if the directory does not hold exactly what would be written
    #[arg(long, conflicts_with = "list")]
    check: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(text) => {
            // A reader that went away is no reason to fail.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let prefix = &args.prefix;
    ensure!(
        prefix.chars().all(legal) && !prefix.starts_with(|c: char| !c.is_ascii_lowercase()),
        "--prefix {prefix}: expected a lower-case letter, then a-z, 0-9 and _"
    );
    // Blocks of a memory that computes are built from a memory.
    let (source, design) = if HBM_BLOCKS.contains(&args.block.as_str()) {
        let config = HbmConfig::load(&args.config)?;
        let design = build_hbm(&config, &args.block)?;
        (Source::memory(&config, &args.config, &args.block, prefix)?, design)
    } else {
        let config = DesignConfig::load(&args.config)?;
        let design = build(&config, &args.block)?;
        (Source::core(&config, &args.config, &args.block, prefix)?, design)
    };
    let Some(out) = args.out.as_deref().filter(|_| !args.list) else {
        return Ok(list(&source.config, &design));
    };
    let files = files(&source, &design)?;
    if args.check {
        check(out, &files)?;
        return Ok(format!("{}: {} files are up to date\n", out.display(), files.len()));
    }
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

fn list(config: &str, design: &Design) -> String {
    let mut text = format!("presets: {}\nblocks:  {}\n", DesignConfig::PRESETS.join(", "), BLOCKS.join(", "));
    text += &format!("memories that compute: {}\n", HbmConfig::PRESETS.join(", "));
    text += &format!("their blocks: {}\n", HBM_BLOCKS.join(", "));
    text += &format!("\nmodules of {config} / {}:\n", design.top().name());
    for (module, count) in design.instance_counts() {
        text += &format!("{count:>7} x {:<40} {}\n", module.name(), module.doc());
    }
    text
}

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
        match fs::read_to_string(out.join(name)) {
            Ok(found) if found == *content => {}
            Ok(_) => drift.push(format!("{name} differs")),
            Err(_) => drift.push(format!("{name} is missing")),
        }
    }
    for name in present(out)? {
        if has_generated_name(&name) && !files.contains_key(&name) {
            drift.push(format!("{name} does not belong to this design"));
        }
    }
    ensure!(drift.is_empty(), "'{}' is out of date: {}", out.display(), drift.join(", "));
    Ok(())
}

fn write(out: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create directory '{}'", out.display()))?;
    let stray: Vec<String> = present(out)?
        .into_iter()
        .filter(|name| has_generated_name(name) && !files.contains_key(name))
        .collect();
    if let Some(name) = stray.iter().find(|name| !ours(&out.join(name))) {
        bail!("'{}' holds {name}, which this program did not write; choose another directory", out.display());
    }
    let staged = |name: &str| out.join(format!(".{name}.part"));
    for (name, content) in files {
        let path = staged(name);
        let result = fs::write(&path, content).with_context(|| format!("cannot write '{}'", path.display()));
        if result.is_err() {
            for name in files.keys() {
                // Best effort: the first error is the one that matters.
                let _ = fs::remove_file(staged(name));
            }
            return result;
        }
    }
    for name in files.keys() {
        let path = out.join(name);
        fs::rename(staged(name), &path).with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    for name in stray {
        let path = out.join(name);
        fs::remove_file(&path).with_context(|| format!("cannot remove outdated '{}'", path.display()))?;
    }
    Ok(())
}

/// Whether a file carries the head of a generated one.
fn ours(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    fs::read_to_string(path).is_ok_and(|text| is_generated(&name, &text))
}
