//! `ndp model compile`: a model as the bytes in the DRAM of each DIMM and the programs of each core.
//!
//! The host software runs with modelled cores and records its writes and programs. The programs are therefore those
//! of `ndp generate` without links: the host carries data between DIMMs.

use crate::prelude::*;
use ndp_hermes::scheduler::Policy;
use ndp_model::{GenerateOptions, Model, generate_tokens};
use ndp_sim::core::{Backend, CoreOptions};
use ndp_sim::gemv::{GemvOptions, LoggedProgram, MergeFormat};
use ndp_sim::system::{ImageMap, Setup, SystemBackend, SystemOptions};
use serde::Serialize;
use std::fs;

/// Number of tokens of the text that gives the placement its frequencies.
const PROFILE_TOKENS: usize = 64;

/// Write where the weights of a model lie in the DIMMs, and the programs that compute a token, for `ndp run` and
/// other simulators
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp model compile --config tiny --dimms 4 --out compiled\n  \
        ndp run compiled/dimm0/*.asm --config tiny   (all programs of a core in RTL, checked)\n\n\
        DIR receives map.json (the place of each neuron and each matrix) and a folder for each DIMM. There, 0000-image.asm writes the \
        weights; each other file is a program with the data that the host writes before it starts.")]
pub struct Args {
    /// Directory for the files: new or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Directory with config.json and model.safetensors, or a GGUF file [default: golden/model]
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub model: Option<PathBuf>,
    /// NDP core: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Number of DIMMs (1..=16)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub dimms: u32,
    /// Machine around the DIMMs (GPU, bus, host): small, hermes, hermes-3090, hermes-t4 or a path ending in .toml
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "small")]
    pub system: String,
    /// Share of the neurons for which the GPU has memory, in percent (0..=100)
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gpu_percent: u32,
    /// Format of the partial results that devices exchange
    #[arg(long, value_enum, default_value_t = MergeFormat::Exact)]
    pub merge: MergeFormat,
    /// Text whose tokens (bytes) the programs compute, all of them together as one batch
    #[arg(long, default_value = "I")]
    pub text: String,
    /// Seed of the placement
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Contents of `map.json`.
#[derive(Debug, Serialize)]
struct Map<'a> {
    config: &'a DesignConfig,
    #[serde(flatten)]
    image: ImageMap,
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let folder = args.model.clone().unwrap_or_else(|| workspace_path("golden/model"));
    let files = FileSet::new().configuration("the configuration", &args.config);
    let files = files.configuration("the system", &args.system).input_folder("part of the model", &folder);
    args.form.files(files).check()?;
    let out = args.out.display();
    if fs::read_dir(&args.out).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("`{out}` is not empty; --out needs a new or an empty directory");
    }
    let config = DesignConfig::load(&args.config)?;
    let model = load_model(&folder)?;
    let (image, cores) = compile(args, &config, &model)?;

    let mut written =
        vec![("map.json".into(), serde_json::to_string_pretty(&Map { config: &config, image })? + "\n")];
    let (mut rows, mut all) = (Vec::new(), (0, 0));
    for (dimm, programs) in cores.iter().enumerate() {
        let bytes = |programs: &[LoggedProgram]| {
            programs.iter().map(|logged| 64 * logged.program.data.len() as u64).sum::<u64>()
        };
        let (image, others) = programs.split_at(1.min(programs.len()));
        let instructions = others.iter().map(|logged| logged.program.code.len()).sum::<usize>();
        all = (all.0 + others.len(), all.1 + instructions);
        let others = (others.len(), instructions, bytes(others));
        rows.push((format!("{out}/dimm{dimm}"), bytes(image), others));
        for (number, LoggedProgram { label, program }) in programs.iter().enumerate() {
            let name: String =
                label.split_once("layer").map_or(label.clone(), |(_, rest)| format!("layer{rest}"));
            let name = name.replace(", ", "-").replace(' ', "");
            let text = format!("# DIMM {dimm} of {} ({}), {label}\n{program}", args.dimms, config.name());
            written.push((format!("dimm{dimm}/{number:04}-{name}.asm"), text));
        }
    }
    write(&args.out, &written).with_context(|| format!("cannot write into `{out}`"))?;
    let rows = rows! { rows => |(folder, image, (programs, instructions, others))|
        "folder" "folder" {Text} Screen: "folder of the DIMM's programs" = folder;
        "image_bytes" "weights" {Bytes} Screen: "bytes of the DIMM's weights" = image;
        "programs" "programs" {Count} Screen: "programs of a token" = programs;
        "instructions" "instructions" {Count} Screen: "instructions of the programs" = instructions;
        "host_bytes" "from the host" {Bytes} Screen: "bytes that the host writes during a token" = others;
    };
    let (programs, instructions) = all;
    Ok(Report::answer(
        "model compile",
        format!("{programs} programs with {instructions} instructions are in {out}"),
    )
    .setting(format!(
        "{} on {}, {} DIMMs; map.json has the place of each matrix",
        folder.display(),
        config.name(),
        args.dimms
    ))
    .figures(figures! {
        "out" "folder" {Text} Json: "folder of the programs" = out.to_string();
    })
    .table("dimms", "DIMMs", rows))
}

/// Returns the map, and for each DIMM the image followed by its programs.
fn compile(args: &Args, config: &DesignConfig, model: &Model) -> Result<(ImageMap, Vec<Vec<LoggedProgram>>)> {
    let text = args.text.as_bytes();
    ensure!(!text.is_empty(), "--text \"\" has no tokens; at least one is needed");
    let profile = GenerateOptions::new(PROFILE_TOKENS, 100, args.seed);
    let tokens = model.vocabulary.tokens(text)?;
    let setup = Setup::profile(model, &tokens, &profile)?;
    let system = SystemConfig::load(&args.system)?.having_dimms()?.with_dimms(args.dimms)?;
    let system = system.with_gpu_percent(&setup.shape, args.gpu_percent)?;
    let places = setup.online(config, &system, Policy::Partition, (tokens.len(), args.seed))?;
    // No results are compared here, so old ones may stay.
    let unit = GemvOptions {
        log_programs: true,
        audit: false,
        core: CoreOptions { backend: Backend::Cycles, ..CoreOptions::default() },
        ..GemvOptions::default()
    };
    let options = SystemOptions { merge: args.merge, ..SystemOptions::new(&system) };
    let mut backend = SystemBackend::open(config, &unit, &options, places, model)?;
    let image = backend.image_map();
    generate_tokens(model, &mut backend, &tokens, &GenerateOptions { tokens: 1, ..profile }, |_| {})?;
    Ok((image, backend.take_programs()))
}

/// Writes all files, or none if an error occurs before all are created.
fn write(out: &Path, files: &[(String, String)]) -> Result<()> {
    let mut open = Vec::new();
    for (name, text) in files {
        let path = out.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        open.push((OutputFile::create(&path)?, text));
    }
    for (file, text) in open {
        file.finish(|to| to.write_all(text.as_bytes()))?;
    }
    Ok(())
}
