//! `ndp model perplexity`: how well a model predicts a text, with its weights in each format.
//!
//! The software decoder computes the logits; hardware has the same bits.

use crate::args::weight_format;
use crate::prelude::*;
use ndp_config::WeightFormat;
use ndp_model::SoftwareBackend;
use ndp_sim::system::perplexity_in_windows;

/// Largest text, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// Measure how well a model predicts a text, with FP16, INT8 and INT4 weights
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp model perplexity --text /usr/share/common-licenses/GPL-3\n  \
        ndp model perplexity --model smollm2 --text book.txt --tokens 2048 --context 512 --weights fp16,int4\n\n\
        The text is cut into windows; each is a text of its own, so its first token is not counted.")]
pub struct Args {
    /// Text to predict
    #[arg(long, value_name = "FILE")]
    pub text: PathBuf,
    /// Directory with config.json and model.safetensors, a GGUF file, or smollm2 (ndp model get) [default:
    /// golden/model-llama]
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub model: Option<PathBuf>,
    /// Number of tokens from the beginning of the text (2 or more)
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..))]
    pub tokens: u32,
    /// Tokens of a window, at most the model's positions (2 or more)
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(2..))]
    pub context: u32,
    /// Weight formats
    #[arg(long, value_name = "FORMAT,...", value_delimiter = ',', value_parser = weight_format())]
    #[arg(default_value = "fp16,int8,int4")]
    pub weights: Vec<WeightFormat>,
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let folder = args.model.clone().unwrap_or_else(|| workspace_path("golden/model-llama"));
    let files = FileSet::new().input("the text", &args.text).input_folder("part of the model", &folder);
    args.form.files(files).check()?;
    let shown = args.text.display();
    let text =
        ndp_files::read_text(&args.text, MAX_TEXT).with_context(|| format!("cannot read '{shown}'"))?;
    let model = load_model(&folder)?;
    let mut tokens = model.vocabulary.tokens(text.as_bytes())?;
    let all = tokens.len();
    tokens.truncate(args.tokens as usize);
    let context = (args.context as usize).min(model.config.max_position_embeddings());
    let progress = Progress::new((tokens.len() * args.weights.len()) as u64, "tokens");
    let mut found = Vec::new();
    for &format in &args.weights {
        let (quantised, _) = model.clone().quantised(format)?;
        let of = (tokens.as_slice(), context);
        let done = |tokens: usize| progress.add(tokens as u64);
        found.push((format, perplexity_in_windows(&quantised, &mut SoftwareBackend::new(), of, done)?));
    }
    drop(progress);
    let (best, first) = &found[0];
    let rows = rows! { &found => |(format, perplexity)|
        "weights" "weights" {Text} Screen: "format of the weights" = format;
        "per_token" "perplexity" {Real("", 3)} Screen: "perplexity of a token" = perplexity.per_token;
        "change" "change" {Share} Screen: "relative to the first row" = perplexity.per_token / first.per_token - 1.0;
        "right" "largest logit right" {Share} Screen: "share of the tokens that had the largest logit"
            = perplexity.right as f64 / perplexity.tokens as f64;
        "tokens" "of tokens" {Count} Screen: "tokens that were predicted" = perplexity.tokens;
    };
    Ok(Report::answer(
        "model perplexity",
        format!("a token has perplexity {:.2} with {best} weights", first.per_token),
    )
    .setting(format!(
        "{} of {all} tokens of {shown}, windows of {context}, model {}",
        tokens.len(),
        folder.display()
    ))
    .figures(figures! {
        "model" "model" {Text} Json: "model" = folder.display().to_string();
        "text" "text" {Text} Json: "text that is predicted" = shown.to_string();
        "context" "context" {Count} Json: "tokens of a window" = context;
    })
    .table("formats", "Perplexity", rows))
}
