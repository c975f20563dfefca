//! `ndp model perplexity`: how well a model predicts a text, with its weights in each format and with thresholds.

use crate::args::weight_format;
use crate::prelude::*;
use ndp_config::WeightFormat;
use ndp_model::{Magnitudes, Model, SoftwareBackend};
use ndp_sim::system::{Perplexity, perplexity_in_windows};

/// Largest text, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// Measure how well a model predicts a text, with FP16, INT8 and INT4 weights, and with thresholds
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp model perplexity --text /usr/share/common-licenses/GPL-3\n  \
        ndp model perplexity --model smollm2 --text book.txt --tokens 2048 --context 512 --weights fp16,int4\n\n\
        The text is cut into windows; each is a text of its own, so its first token is not counted.")]
pub struct Args {
    #[command(flatten)]
    pub text: TextArgs,
    /// Weight formats
    #[arg(long, value_name = "FORMAT,...", value_delimiter = ',', value_parser = weight_format())]
    #[arg(default_value = "fp16,int8,int4")]
    pub weights: Vec<WeightFormat>,
    /// Files of thresholds (ndp model calibrate), each for a further measurement with every weight format
    #[arg(long, value_name = "FILE.json,...", value_delimiter = ',')]
    pub thresholds: Vec<PathBuf>,
}

/// A text, and the model that predicts it.
#[derive(clap::Args, Debug)]
pub struct TextArgs {
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
}

/// Tokens in windows.
pub struct Text {
    pub tokens: Vec<u32>,
    context: usize,
    /// Tokens of the whole text.
    all: usize,
    shown: String,
    folder: PathBuf,
}

impl Text {
    pub fn setting(&self) -> String {
        let Self { tokens, context, all, shown, folder } = self;
        format!(
            "{} of {all} tokens of {shown}, windows of {context}, model {}",
            tokens.len(),
            folder.display()
        )
    }
}

impl TextArgs {
    fn folder(&self) -> PathBuf {
        self.model.clone().unwrap_or_else(|| workspace_path("golden/model-llama"))
    }

    pub fn files(&self, files: FileSet) -> FileSet {
        files.input("the text", &self.text).input_folder("part of the model", self.folder())
    }

    pub fn read(&self) -> Result<(Model, Text)> {
        let (folder, shown) = (self.folder(), self.text.display().to_string());
        let text =
            ndp_files::read_text(&self.text, MAX_TEXT).with_context(|| format!("cannot read '{shown}'"))?;
        let model = load_model(&folder)?;
        let mut tokens = model.vocabulary.tokens(text.as_bytes())?;
        let all = tokens.len();
        tokens.truncate(self.tokens as usize);
        let context = (self.context as usize).min(model.config.max_position_embeddings());
        Ok((model, Text { tokens, context, all, shown, folder }))
    }
}

/// A text's perplexity, and the activations of its tokens.
pub struct Measured {
    pub perplexity: Perplexity,
    pub magnitudes: Magnitudes<SoftwareBackend>,
}

/// Runs the software decoder, whose bits hardware has.
pub fn measured(model: &Model, text: &Text, done: impl FnMut(usize)) -> Result<Measured> {
    let mut magnitudes = Magnitudes::new(SoftwareBackend::new(), model.layers.len());
    let of = (text.tokens.as_slice(), text.context);
    let perplexity = perplexity_in_windows(model, &mut magnitudes, of, done)?;
    Ok(Measured { perplexity, magnitudes })
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = args.text.files(FileSet::new());
    let files = args.thresholds.iter().fold(files, |files, path| files.input("the thresholds", path));
    args.form.files(files).check()?;
    let (model, text) = args.text.read()?;
    let mut of_thresholds = vec![("none".to_owned(), model)];
    for path in &args.thresholds {
        let mut model = of_thresholds[0].1.clone();
        set_thresholds(&mut model, Some(path))?;
        of_thresholds.push((path.display().to_string(), model));
    }
    let runs = args.weights.len() * of_thresholds.len();
    let progress = Progress::new((text.tokens.len() * runs) as u64, "tokens");
    let mut found = Vec::new();
    for &format in &args.weights {
        for (name, model) in &of_thresholds {
            let (quantised, _) = model.clone().quantised(format)?;
            let Measured { perplexity, magnitudes } =
                measured(&quantised, &text, |tokens| progress.add(tokens as u64))?;
            let active = magnitudes.active();
            let active = active.iter().sum::<f64>() / active.len().max(1) as f64;
            found.push((format, name, perplexity, active));
        }
    }
    drop(progress);
    let (best, first) = (found[0].0, found[0].2.per_token);
    let rows = rows! { &found => |(format, name, perplexity, active)|
        "weights" "weights" {Text} Screen: "format of the weights" = format;
        "thresholds" "thresholds" {Text} Screen: "file of thresholds" = name;
        "active" "active" {Share} Screen: "share of the activations before FC2 that are not zero" = *active;
        "per_token" "perplexity" {Real("", 3)} Screen: "perplexity of a token" = perplexity.per_token;
        "change" "change" {Share} Screen: "relative to the first row" = perplexity.per_token / first - 1.0;
        "right" "largest logit right" {Share} Screen: "share of the tokens that had the largest logit"
            = perplexity.right as f64 / perplexity.tokens as f64;
        "tokens" "of tokens" {Count} Screen: "tokens that were predicted" = perplexity.tokens;
    };
    Ok(Report::answer("model perplexity", format!("a token has perplexity {first:.2} with {best} weights"))
        .setting(text.setting())
        .figures(figures! {
            "model" "model" {Text} Json: "model" = text.folder.display().to_string();
            "text" "text" {Text} Json: "text that is predicted" = text.shown;
            "context" "context" {Count} Json: "tokens of a window" = text.context;
        })
        .table("formats", "Perplexity", rows))
}
