//! Speed of the simulation: `ndp bench --speed` and `--profile`.
//!
//! Native models beside Verilated ones, in turn in one run. What is simulated are calls of this program, so that the host's side is
//! part of the figures as it is for users; models are built before anything is timed. The profile divides the time of each function of
//! a native model among the modules that it computes.

use crate::gemv;
use crate::tools::{Tools, grouped, per_second};
use crate::verdict::Verdict;
use anyhow::{Context, ensure};
use ndp_config::DesignConfig;
use ndp_sim::ffi::{Form, Model, ModuleShare, OpenOptions, rtl};
use serde::Serialize;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is compared: name, arguments, and the arguments of a small run that builds the models. `CONFIG` stands for the configuration.
const CASES: [(&str, &str, &str); 6] = [
    ("product", "gemv --config CONFIG --rows 2048 --cols 4096", "gemv --config CONFIG --rows 1 --cols 64"),
    (
        "product, batch 16",
        "gemv --config CONFIG --rows 512 --cols 4096 --batch 16",
        "gemv --config CONFIG --rows 1 --cols 64",
    ),
    (
        "AXPY",
        "gemv --config CONFIG --rows 2048 --cols 4096 --mode axpy",
        "gemv --config CONFIG --rows 1 --cols 64",
    ),
    (
        "attention",
        "layer --config CONFIG --hidden 1024 --heads 16 --ffn 64 --context 2048",
        "gemv --config CONFIG --rows 1 --cols 64",
    ),
    (
        "4 linked DIMMs",
        "generate --config CONFIG --dimms 4 --tokens 3",
        "generate --config CONFIG --dimms 4 --tokens 1",
    ),
    (
        "PIM channels",
        "pim --mode dex --prompt x --prompt y --tokens 2",
        "pim --mode dex --prompt x --prompt y --tokens 1",
    ),
];
/// Idle cycles that are simulated.
const IDLE_CYCLES: u64 = 200_000;
/// Rounds, of which the fastest counts.
const ROUNDS: usize = 2;

/// Both forms on one case.
#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    /// As they are typed.
    arguments: String,
    native_seconds: f64,
    verilated_seconds: f64,
    ratio: f64,
    /// Core cycles, where one core is simulated.
    cycles: Option<u64>,
    native_cycles_per_second: Option<f64>,
    verilated_cycles_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    cases: Vec<Row>,
    tools: Tools,
}

/// A call of this program with models of a form: its seconds, and its simulated cycles and their seconds if it says them.
fn call(form: Form, arguments: &[String]) -> anyhow::Result<(f64, Option<(u64, f64)>)> {
    let name = clap::ValueEnum::to_possible_value(&form).map(|value| value.get_name().to_owned());
    let began = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).args(["--json", "--form", &name.unwrap_or_default()]);
    let output = ndp_files::output(&mut command).context("cannot run this program again")?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(
        output.status.success(),
        "`ndp {}` failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let cycles = json["simulated_cycles"].as_u64().zip(json["sim_cycles_per_second"].as_f64());
    let simulated = cycles.map(|(cycles, rate)| (cycles, cycles as f64 / rate));
    let of_threads = json["simulation"]["seconds"].as_f64();
    Ok((simulated.map(|(_, seconds)| seconds).or(of_threads).unwrap_or(seconds), simulated))
}

/// Seconds of a core that does nothing.
fn idle(config: &DesignConfig, form: Form) -> anyhow::Result<Duration> {
    let mut model = Model::open(&rtl(config, "ndp_core")?, &OpenOptions { form, ..OpenOptions::default() })?;
    model.reset(8);
    let began = Instant::now();
    model.ticks(IDLE_CYCLES);
    Ok(began.elapsed())
}

/// `ndp bench --speed`.
pub fn compare(config: &DesignConfig, name: &str, json: bool) -> anyhow::Result<Verdict> {
    let arguments = |text: &str| -> Vec<String> {
        text.split(' ').map(|word| if word == "CONFIG" { name.to_owned() } else { word.to_owned() }).collect()
    };
    let mut cases = Vec::new();
    if !json {
        say!("{:<20}{:>12}{:>16}{:>16}{:>9}", "case", "cycles", "native", "Verilated", "ratio");
    }
    for (case, run, small) in CASES {
        let (run, small) = (arguments(run), arguments(small));
        let mut best = [f64::INFINITY; 2];
        let mut cycles = None;
        for form in [Form::Native, Form::Verilated] {
            call(form, &small)?;
        }
        for _ in 0..ROUNDS {
            for (form, best) in [Form::Native, Form::Verilated].into_iter().zip(&mut best) {
                let (seconds, simulated) = call(form, &run)?;
                *best = best.min(seconds);
                cycles = simulated.map(|(cycles, _)| cycles);
            }
        }
        cases.push(row(case, run.join(" "), cycles, best, json));
    }
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (form, best) in [Form::Native, Form::Verilated].into_iter().zip(&mut best) {
            *best = best.min(idle(config, form)?.as_secs_f64());
        }
    }
    cases.push(row("idle", String::new(), Some(IDLE_CYCLES), best, json));
    if json {
        let report = Report { command: "bench", config, cases, tools: Tools::new() };
        say!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(Verdict::Agreed)
}

/// The row of a case, printed unless it goes into a report.
fn row(case: &'static str, arguments: String, cycles: Option<u64>, seconds: [f64; 2], json: bool) -> Row {
    let [native, verilated] = seconds;
    let rate = |seconds: f64| cycles.map(|cycles| cycles as f64 * per_second(1e9 * seconds));
    let row = Row {
        case,
        arguments,
        native_seconds: native,
        verilated_seconds: verilated,
        ratio: verilated / native,
        cycles,
        native_cycles_per_second: rate(native),
        verilated_cycles_per_second: rate(verilated),
    };
    if !json {
        let speed = |rate: Option<f64>, seconds: f64| match rate {
            Some(rate) => format!("{} /s", grouped(rate as u64)),
            None => format!("{seconds:.2} s"),
        };
        say!(
            "{case:<20}{:>12}{:>16}{:>16}{:>9.2}",
            cycles.map_or_else(|| "-".to_owned(), grouped),
            speed(row.native_cycles_per_second, native),
            speed(row.verilated_cycles_per_second, verilated),
            row.ratio
        );
    }
    row
}

/// Where the time of a product went.
#[derive(Debug, Serialize)]
struct Profile {
    arguments: String,
    cycles: u64,
    modules: Vec<ModuleShare>,
}

/// `ndp bench --profile`.
pub fn profile(config: &DesignConfig, jobs: &[gemv::Args], json: bool) -> anyhow::Result<Verdict> {
    Form::Profiled.make_default();
    let mut profiles = Vec::new();
    for job in jobs {
        let mut product = gemv::simulate(job)?;
        let cycles = product.backend.total().cycles;
        let mut modules = product.backend.unit_mut().profile();
        modules.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        profiles.push(Profile { arguments: product.rerun.line().to_string(), cycles, modules });
    }
    if json {
        #[derive(Serialize)]
        struct Report<'a> {
            command: &'static str,
            config: &'a DesignConfig,
            profiles: Vec<Profile>,
            tools: Tools,
        }
        let report = Report { command: "bench", config, profiles, tools: Tools::new() };
        say!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(Verdict::Agreed);
    }
    for Profile { arguments, cycles, modules } in &profiles {
        let total: f64 = modules.iter().map(|module| module.seconds).sum();
        say!("{arguments}");
        say!("{:<50}{:>10}{:>18}", "module, all instances", "time", "operations/cycle");
        for ModuleShare { module, seconds, operations } in modules {
            let share = 100.0 * seconds / total;
            if share >= 0.05 {
                say!("{module:<50}{share:>8.1} %{:>18.1}", operations / *cycles as f64);
            }
        }
    }
    Ok(Verdict::Agreed)
}
