//! Accuracy of the predictor on a trace of one sequence: the first tokens make the correlation table, the next ones are
//! the prefill that sets the states, all later ones are predicted.
//!
//! `cargo run --release -p ndp-hermes --example accuracy -- TRACE TABLE_TOKENS PREFILL_TOKENS`

use ndp_hermes::predictor::{LayerTable, PredictorKind, PredictorRules, evaluate};
use ndp_traces::{Activity, TraceReader};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, sampled, prefill] = arguments.as_slice() else {
        return Err("arguments: TRACE TABLE_TOKENS PREFILL_TOKENS".into());
    };
    let count = |what: &str, text: &str| {
        text.parse::<usize>().map_err(|e| format!("{what} = {text:?} is not a number of tokens: {e}"))
    };
    let (sampled, prefill) = (count("TABLE_TOKENS", sampled)?, count("PREFILL_TOKENS", prefill)?);
    let reader = TraceReader::open(Path::new(path)).map_err(|e| format!("{path}: {e:#}"))?;
    let shape = reader.shape().clone();
    let tokens: Vec<Activity> = reader.collect::<Result<_, _>>().map_err(|e| format!("{path}: {e:#}"))?;
    let Some((sample, rest)) = tokens.split_at_checked(sampled) else {
        return Err(format!("{path}: {} tokens, {sampled} were to be sampled", tokens.len()).into());
    };
    let table = LayerTable::sample(&shape, sample.iter().cloned())?;
    println!("{:<10} {:<10} {:>9} {:>10} {:>8}", "from", "blocks", "accuracy", "precision", "recall");
    for kind in PredictorKind::ALL {
        let tokens = rest.iter().cloned();
        let found = evaluate(&shape, &table, PredictorRules::default(), kind, prefill, tokens)?;
        for (blocks, counts) in [("attention", found.attention), ("mlp", found.mlp), ("all", found.all())] {
            let percent = [counts.accuracy(), counts.precision(), counts.recall()].map(|share| 100.0 * share);
            let [accuracy, precision, recall] = percent;
            let name = format!("{kind:?}");
            println!("{name:<10} {blocks:<10} {accuracy:>8.2}% {precision:>9.2}% {recall:>7.2}%");
        }
    }
    Ok(())
}
