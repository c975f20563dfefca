//! `ndp serve export`: tables of latencies and energies.

use super::machine::LibraPimArgs;
use crate::offload::memory_times;
use crate::prelude::*;
use ndp_config::NameRule;
use ndp_librapim::offloading::Mode;
use ndp_systems::serving::export::{PimLine, Tables, contexts, reference_model};

#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  ndp serve export --llm llama3-70b --tp 8 --out tables")]
pub struct Args {
    /// Model: a preset such as llama2-7b (an unknown name lists them), a path ending in .toml, or a checkpoint's config.json
    #[arg(long)]
    llm: String,
    /// Mode, which determines whether the banks are sliced
    #[arg(long, value_enum, default_value = "dex+dbo")]
    mode: Mode,
    /// Name of the hardware in the tables
    #[arg(long, default_value = "ndp-librapim")]
    name: String,
    #[command(flatten)]
    chips: LibraPimArgs,
    /// Folder for the tables; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// # Errors
/// A machine without tables; files that cannot be written.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    let Args { name, out, .. } = &**args;
    NameRule::Word.check(name).map_err(|error| refusal!("--name {error}"))?;
    let files = args.chips.files(FileSet::new().configuration("the model", &args.llm));
    args.form.files(files).output("--out", out.join("energies.csv")).check()?;
    let shape = LlmShape::load(&args.llm)?;
    shape.check_experts("serving machines")?;
    NameRule::Word.check(shape.name()).map_err(|error| refusal!("--llm: the name {error}"))?;
    crate::tools::check_banks(&args.chips.memory()?, args.mode)?;
    let (chips, _) = args.chips.chips(&shape, None, contexts().collect())?;
    ensure!(
        chips.parallel.pp == 1,
        "--pp {}: the tables describe layers, which pipeline stages do not change; leave it out",
        chips.parallel.pp
    );
    let sliced = usize::from(args.mode.sliced());
    let costs = chips.costs(&chips.part);
    let tables = Tables {
        part: &chips.part,
        hardware: &chips.hardware,
        memory: &chips.memory,
        times: chips.times[sliced].as_ref(),
        costs: &costs,
        mode: args.mode,
    };
    tables.check()?;
    let reference = reference_model();
    let measured: Vec<u32> = contexts().collect();
    let measured = args.chips.is_measured().then_some(&measured);
    let reference =
        memory_times(&reference, (&chips.hardware, &*args.chips.hardware), &chips.memory, measured)?;
    let line = PimLine::fit(reference[sliced].as_ref(), &chips.hardware);
    let model = out.join(name).join(shape.name()).join("fp16");
    let tp = model.join(format!("tp{}", chips.parallel.tp));
    let pim = out.join("pim");
    for folder in [&tp, &pim] {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
    }
    let fit = format!("name,slope,intercept\n{name},{:.4},{:.4}\n", line.slope, line.intercept);
    let files = [
        (model.join("meta.yaml"), tables.meta(name, shape.name(), chips.parallel.tp)),
        (tp.join("dense.csv"), tables.dense()),
        (tp.join("per_sequence.csv"), tables.per_sequence()),
        (tp.join("attention.csv"), tables.attention()),
        (pim.join(format!("{name}.ini")), tables.pim_ini()),
        (pim.join(format!("{name}.csv")), fit),
        (out.join("energies.csv"), tables.energies()),
    ];
    files.iter().try_for_each(|(path, text)| crate::output::write(path, text))?;
    let written = rows! { files => |(path, _)|
        "file" "file" {Text} Screen: "file that was written" = path.display().to_string();
    };
    let fit = figures! {
        "intercept" "attention in a channel" {Real("ns", 1)} Screen: "time of attention in a channel, for pim_model.py, without tokens"
            = line.intercept;
        "slope" "and for each token" {Real("ns", 3)} Screen: "time for each token in K and V" = line.slope;
        "worst" "off by at most" {Share} Screen: "largest distance of a time from the line, as a share of the time" = line.worst;
    };
    Ok(Report::answer(
        "serve export",
        format!("{} tables of {} in {}", written.count(), shape.name(), out.display()),
    )
    .setting(format!(
        "mode {}, {} chips share a layer, {}",
        args.mode.name(),
        chips.parallel.tp,
        chips.memory.name()
    ))
    .figures(fit)
    .table("files", "Files", written))
}
