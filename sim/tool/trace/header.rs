//! The header of a trace in reports.

use crate::prelude::*;
use ndp_files::visible;
use ndp_traces::TraceHeader;

fields! { HEADER
    "model" "model" {Text} Screen: "name of the model";
    "layers" "layers" {Count} Screen: "layers";
    "attention" "neurons before attention" {Count} Screen: "neurons of a block before Q, K and V";
    "mlp" "neurons of the MLP" {Count} Screen: "neurons of an MLP block";
    "tokens" "tokens" {Count} Screen: "tokens";
    "prompt_tokens" "of the prompts" {Count} Screen: "tokens of prompts";
    "sequences" "sequences" {Count} Screen: "independent texts";
    "seed" "seed" {Count} Screen: "seed";
    "source" "source" {Text} Screen: "program that wrote it";
}

pub fn with(report: Report, header: &TraceHeader) -> Report {
    let TraceHeader { model, tokens, sequences, source, .. } = header;
    report
        .setting(format!("{tokens} tokens of {model} in {sequences} sequence(s); {}", visible(source)))
        .group(Level::Verbose, ("header", "Header"), (HEADER, header))
}
