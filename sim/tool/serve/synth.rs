//! `ndp serve synth`: a random trace.

use crate::prelude::*;
use ndp_systems::serving::{Lengths, Synth, request};

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp serve synth --requests 1000 --rate 20 --out alpaca.jsonl\n  \
    ndp serve synth --requests 64 --rate inf --input 512 --output 128 --seed 3 --out burst.jsonl")]
pub struct Args {
    /// Number of requests
    #[arg(long, value_name = "N")]
    requests: u32,
    /// Mean number of arrivals per second (Poisson); `inf` makes all requests arrive at once
    #[arg(long, value_name = "R")]
    rate: f64,
    /// Mean number of tokens of a prompt
    #[arg(long, value_name = "TOKENS", default_value_t = Lengths::ALPACA_INPUT.mean)]
    input: f64,
    /// Mean number of tokens to generate
    #[arg(long, value_name = "TOKENS", default_value_t = Lengths::ALPACA_OUTPUT.mean)]
    output: f64,
    /// Seed of arrivals and lengths
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the trace to this file, as lines of JSON
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// # Errors
/// Lengths and rates that cannot be drawn.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    args.form.files(FileSet::new()).output("--out", &args.out).check()?;
    let Args { requests, rate, seed, .. } = **args;
    let input = Lengths::ALPACA_INPUT.scaled_to(args.input);
    let output = Lengths::ALPACA_OUTPUT.scaled_to(args.output);
    let drawn = Synth { requests, rate, input, output, seed }.draw()?;
    crate::output::write(&args.out, &request::to_jsonl(&drawn))?;
    let mean = |of: fn(&request::Request) -> u32| {
        drawn.iter().map(|request| f64::from(of(request))).sum::<f64>() / f64::from(requests)
    };
    let seconds = drawn.last().map_or(0.0, |last| last.arrival_ns as f64 / 1e9);
    let lengths = [
        ("input", args.input, mean(|request| request.input)),
        ("output", args.output, mean(|request| request.output)),
    ];
    let lengths = rows! { lengths => |(tokens, asked, drawn)|
        "tokens" "tokens" {Text} Screen: "input: of the prompt; output: generated" = tokens;
        "asked" "mean" {Real("", 1)} Screen: "mean of the distribution" = asked;
        "drawn" "mean of the trace" {Real("", 1)} Screen: "mean of the drawn requests" = drawn;
    };
    Ok(Report::answer(
        "serve synth",
        format!("{requests} requests in {seconds:.1} s, in {}", args.out.display()),
    )
    .setting(format!("{rate} requests per second, seed {seed}"))
    .note("lengths are log-normal, with the spread of Alpaca's as far as it is published (docs/serving.md)")
    .figures(figures! {
        "requests" "requests" {Count} Verbose: "requests of the trace" = requests;
        "seconds" "seconds" {Real("s", 1)} Verbose: "arrival of the last request" = seconds;
        "seed" "seed" {Count} Verbose: "seed" = seed;
    })
    .table("lengths", "Lengths", lengths))
}
