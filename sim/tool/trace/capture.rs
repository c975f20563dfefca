//! `ndp trace capture`: runs the repository's model on real text.

use crate::prelude::*;
use crate::temperature::temperature_percent;
use ndp_model::{GenerateOptions, SoftwareBackend, generate};
use ndp_traces::capture::{Capture, shape_of};
use ndp_traces::{TokenInfo, TraceFileWriter, TraceHeader};
use std::cell::Cell;
use std::ffi::OsStr;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace capture --out own.trace
  ndp trace capture --prompt 'It was a dark' --prompt 'Mr. Darcy' --tokens 100 --seed 7 --out two.trace")]
pub struct Args {
    /// Text to continue (repeatable); each one becomes a sequence
    #[arg(long, default_value = "Elizabeth was surprised at")]
    prompt: Vec<String>,
    /// Number of tokens to generate for each prompt (1..=2^20)
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    tokens: u64,
    /// Sampling temperature, 0 (greedy) to 10, two decimals
    #[arg(long, value_name = "T", default_value = "0.5", value_parser = temperature_percent)]
    temperature: u32,
    /// Seed of the sampler
    #[arg(long, default_value_t = 4)]
    seed: u64,
    /// Directory of the model, or a GGUF file [default: golden/model]
    #[arg(long, value_name = "DIR|FILE.gguf")]
    model: Option<PathBuf>,
    /// Thresholds of `ndp model calibrate`: activations of feed-forward blocks that do not exceed them count as zero
    #[arg(long, value_name = "FILE.json")]
    thresholds: Option<PathBuf>,
    /// Write the trace to this file
    #[arg(long)]
    out: PathBuf,
}

/// Name of a folder, or of a GGUF file without its ending.
fn name_of(path: &Path) -> Option<&OsStr> {
    if path.extension().is_some_and(|end| end == "gguf") { path.file_stem() } else { path.file_name() }
}

/// # Errors
/// An unusable model; a text that is too long for it.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    let path = args.model.clone().unwrap_or_else(|| workspace_path("golden/model"));
    let files = FileSet::new().input_folder("part of the model", &path);
    let files = args.thresholds.iter().fold(files, |files, path| files.input("the thresholds", path));
    args.form.files(files.output("--out", &args.out)).check()?;
    let mut model = load_model(&path)?;
    set_thresholds(&mut model, args.thresholds.as_ref())?;
    let shape = shape_of(&model.config);
    let positions = model.config.max_position_embeddings() as u64;
    let mut lengths = Vec::new();
    for prompt in &args.prompt {
        let own = model.vocabulary.tokens(prompt.as_bytes())?.len() as u64;
        let requested = own + args.tokens;
        ensure!(own > 0, "an empty prompt cannot be continued");
        ensure!(
            requested <= positions,
            "the text needs {requested} positions ({own} for the prompt, {} to generate), but the model supports {positions}; generate fewer tokens",
            args.tokens
        );
        lengths.push(own);
    }
    let sequences = args.prompt.len() as u64;
    let prompt_tokens: u64 = lengths.iter().sum();
    let header = TraceHeader {
        model: name_of(&path).map_or("model".into(), |name| {
            if args.model.is_none() { "golden".into() } else { name.to_string_lossy().into_owned() }
        }),
        layers: shape.blocks().len() as u32 / 2,
        attention: model.config.hidden_size() as u32,
        mlp: (model.config.ffn_dim() * model.config.experts()) as u32,
        tokens: prompt_tokens + sequences * (args.tokens - 1),
        prompt_tokens,
        sequences,
        seed: args.seed,
        source: format!(
            "trace capture: {sequences} prompt(s), temperature {} %, {} generated tokens each",
            args.temperature, args.tokens
        ),
    };
    let bar = ndp_files::Progress::new(header.tokens, "tokens");
    let tokens = header.tokens;
    let mut writer = TraceFileWriter::create(&args.out, header.clone())?;
    let mut texts = Vec::new();
    let options = GenerateOptions::new(args.tokens as usize, args.temperature, args.seed);
    for (prompt, own) in args.prompt.iter().zip(lengths) {
        let position = Cell::new(0);
        let mut backend = Capture::new(SoftwareBackend::new(), shape.clone(), |activity| {
            bar.add(1);
            writer.write(TokenInfo::at(position.replace(position.get() + 1), own), activity)
        });
        let generation = generate(&model, &mut backend, prompt.as_bytes(), &options, |_| {})?;
        texts.push((prompt, generation.text));
    }
    drop(bar);
    writer.finish()?;
    let texts = rows! { texts => |(prompt, text)|
        "prompt" "prompt" {Text} Screen: "text that was continued" = prompt;
        "text" "text" {Text} Screen: "text that was generated" = text;
    };
    let answer = format!("{} has {tokens} tokens of {} neurons", args.out.display(), shape.neurons());
    Ok(super::header::with(Report::answer("trace capture", answer), &header).table("texts", "Texts", texts))
}
