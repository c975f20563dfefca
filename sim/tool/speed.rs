//! Speed of the simulation: `ndp bench --speed` and `--profile`.
//!
//! Runs native and Verilated models in turn. The runs are calls of this program, so that the host's part is included
//! in the figures. Models are built before the timing starts. The profile divides the time of each function of a
//! native model among the modules that the function computes.

use crate::gemv;
use crate::prelude::*;
use crate::tools::per_second;
use ndp_config::GemvShape;
use ndp_files::{REFUSED, Refusal};
use ndp_sim::ffi::{Form, Model, ModuleShare, OpenOptions, rtl};
use std::process::Command;
use std::time::{Duration, Instant};

const ONE_CORE: &str = "gemv --config CONFIG --rows 1 --cols 64";
/// Name, arguments, and arguments of a small run that builds the models. `CONFIG` represents the configuration.
const CASES: [(&str, &str, &str); 6] = [
    ("product", "gemv --config CONFIG --rows 2048 --cols 4096", ONE_CORE),
    ("product, batch 16", "gemv --config CONFIG --rows 512 --cols 4096 --batch 16", ONE_CORE),
    ("AXPY", "gemv --config CONFIG --rows 2048 --cols 4096 --mode axpy", ONE_CORE),
    ("attention", "layer --config CONFIG --hidden 1024 --heads 16 --ffn 64 --context 2048", ONE_CORE),
    (
        "4 linked DIMMs",
        "generate --config CONFIG --dimms 4 --tokens 3",
        "generate --config CONFIG --dimms 4 --tokens 1",
    ),
    (
        "PIM channels",
        "generate pim --mode dex --prompt x --prompt y --tokens 2",
        "generate pim --mode dex --prompt x --prompt y --tokens 1",
    ),
];
const IDLE_CYCLES: u64 = 200_000;
/// Number of rounds; the fastest one counts.
const ROUNDS: usize = 2;

/// Calls this program. Returns the seconds, and the simulated cycles with their seconds if the program prints them.
fn call(form: Form, arguments: &[String]) -> Result<(f64, Option<(u64, f64)>)> {
    let name = clap::ValueEnum::to_possible_value(&form).map(|value| value.get_name().to_owned());
    let began = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).args(["--json", "--form", &name.unwrap_or_default()]);
    let output = ndp_files::output(&mut command).context("cannot run this program again")?;
    let seconds = began.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("error: ");
    ensure!(output.status.code() != Some(REFUSED.into()), "{said}");
    anyhow::ensure!(output.status.success(), "`ndp {}` failed: {said}", arguments.join(" "));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let cycles = json["simulated_cycles"].as_u64().zip(json["sim_cycles_per_second"].as_f64());
    let simulated = cycles.map(|(cycles, rate)| (cycles, cycles as f64 / rate));
    let of_threads = json["simulation"]["seconds"].as_f64();
    Ok((simulated.map(|(_, seconds)| seconds).or(of_threads).unwrap_or(seconds), simulated))
}

/// Time that an idle core takes.
fn idle(config: &DesignConfig, form: Form) -> Result<Duration> {
    let mut model = Model::open(&rtl(config, "ndp_core")?, &OpenOptions { form, ..OpenOptions::default() })?;
    model.reset(8);
    let began = Instant::now();
    model.ticks(IDLE_CYCLES);
    Ok(began.elapsed())
}

/// Simulated cycles, and seconds of the fastest round with native and with Verilated models. A small run builds the
/// models first.
fn fastest(run: &[String], small: &[String]) -> Result<(Option<u64>, [f64; 2])> {
    const FORMS: [Form; 2] = [Form::Native, Form::Verilated];
    for form in FORMS {
        call(form, small)?;
    }
    let (mut cycles, mut best) = (None, [f64::INFINITY; 2]);
    for _ in 0..ROUNDS {
        for (form, best) in FORMS.into_iter().zip(&mut best) {
            let (seconds, simulated) = call(form, run)?;
            *best = best.min(seconds);
            cycles = simulated.map(|(cycles, _)| cycles);
        }
    }
    Ok((cycles, best))
}

pub fn compare(config: &DesignConfig, name: &str) -> Result<Report> {
    let arguments = |text: &str| -> Vec<String> {
        text.split(' ').map(|word| if word == "CONFIG" { name.to_owned() } else { word.to_owned() }).collect()
    };
    let (mut cases, mut refused) = (Vec::new(), Vec::new());
    let progress = Progress::new(CASES.len() as u64 + 1, "cases");
    for (case, run, small) in CASES {
        let run = arguments(run);
        match fastest(&run, &arguments(small)) {
            Ok((cycles, best)) => cases.push(row(case, run.join(" "), cycles, best)),
            Err(error) if error.is::<Refusal>() => refused.push((case, error)),
            Err(error) => return Err(error),
        }
        progress.add(1);
    }
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (form, best) in [Form::Native, Form::Verilated].into_iter().zip(&mut best) {
            *best = best.min(idle(config, form)?.as_secs_f64());
        }
    }
    cases.push(row("idle", String::new(), Some(IDLE_CYCLES), best));
    drop(progress);
    let cases = Values::from(cases);
    let refused = rows! { refused => |(case, error)|
        "case" "case" {Text} Screen: "what would run" = case;
        "reason" "reason" {Text} Screen: "reason of the refusal" = format!("{error:#}");
    };
    let ratios = || cases.numbers("ratio");
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    Ok(Report::answer(
        "bench --speed",
        format!("native models are {least:.2} to {most:.2} times as fast as Verilated ones"),
    )
    .setting(format!("{}, the best of {ROUNDS} rounds on this machine", config.name()))
    .table("cases", "Cases", cases)
    .table("refused", "Cases that the configuration is too small for", refused)
    .data("config", "the configuration (docs/configuration.md)", config)
    .data("tools", "versions of the tools", &Tools::new()))
}

fn row(case: &'static str, arguments: String, cycles: Option<u64>, seconds: [f64; 2]) -> Values {
    let [native, verilated] = seconds;
    let rate = |seconds: f64| cycles.map(|cycles| cycles as f64 * per_second(1e9 * seconds));
    figures! {
        "case" "case" {Text} Screen: "what runs" = case;
        "cycles" "cycles" {Count} Screen: "core cycles, where one core is simulated" = cycles;
        "native_seconds" "native" {Real("s", 2)} Screen: "seconds of wall-clock time with native models" = native;
        "verilated_seconds" "Verilated" {Real("s", 2)} Screen: "seconds with Verilated models" = verilated;
        "ratio" "ratio" {Real("", 2)} Screen: "verilated_seconds / native_seconds" = verilated / native;
        "native_cycles_per_second" "native" {Real("cycles/s", 0)} Screen: "cycles in a second with native models" = rate(native);
        "verilated_cycles_per_second" "Verilated" {Real("cycles/s", 0)} Verbose: "cycles in a second with Verilated models" = rate(verilated);
        "arguments" "arguments" {Text} Json: "arguments of ndp" = arguments;
    }
}

pub fn profile(config: &DesignConfig, jobs: &[(GemvShape, gemv::Args)]) -> Result<Report> {
    Form::Profiled.make_default();
    let mut rows = Vec::new();
    for (shape, job) in jobs {
        let mut product = gemv::simulate(job)?;
        let cycles = product.backend.total().cycles;
        let mut modules = product.backend.unit_mut().profile();
        modules.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let total: f64 = modules.iter().map(|module| module.seconds).sum();
        let product = format!("{} of {} x {}", gemv::name(job.mode), shape.rows, shape.cols);
        rows.extend(modules.into_iter().map(|one| (product.clone(), cycles, one.seconds / total, one)));
    }
    let first = rows.first().map_or_else(String::new, |(.., share, ModuleShare { module, .. })| {
        format!("{module} takes most of the simulation's time: {:.1} %", 100.0 * share)
    });
    let rows = rows! { rows => |(product, cycles, share, ModuleShare { module, seconds, operations })|
        "product" "product" {Text} Screen: "mode and sizes" = product;
        "module" "module, all instances" {Text} Screen: "module" = module;
        "share" "time" {Share} Screen: "share of the time of all modules" = share;
        "operations_per_cycle" "operations/cycle" {Real("", 1)} Screen: "operations of the netlist in a core cycle" = operations / cycles as f64;
        "seconds" "time" {Real("s", 3)} Json: "time of the module" = seconds;
        "operations" "operations" {Count} Json: "operations of the netlist" = operations;
        "cycles" "cycles" {Count} Json: "core cycles of the product" = cycles;
    };
    Ok(Report::answer("bench --profile", first)
        .setting(format!("{}, native models with clocks", config.name()))
        .table("modules", "Modules", rows)
        .data("config", "the configuration (docs/configuration.md)", config)
        .data("tools", "versions of the tools", &Tools::new()))
}
