//! What is said about runs as text.

use super::Args;
use super::figures::Figures;
use crate::tools::grouped;
use ndp_model::Generation;

/// Prints everything.
pub fn print(args: &Args, figures: &[Figures], alone: &[Generation], reason: Option<&str>) {
    for (prompt, generation) in args.prompt.iter().zip(alone) {
        say!("{prompt}|{}", generation.text);
    }
    say!("");
    let texts = if figures.iter().all(|f| f.texts_differ == 0) { "the same" } else { "NOT the same" };
    say!(
        "{} requests, {} tokens; texts and logits in all modes and in software: {texts}",
        alone.len(),
        figures.first().map_or(0, |f| f.tokens)
    );
    say!("");
    say!(
        "{:10} {:>12} {:>12} {:>10} {:>6} {:>6} {:>6} {:>12} {:>12} {:>10}",
        "mode",
        "clocks",
        "per token",
        "tokens/s",
        "NPU %",
        "PIM %",
        "both %",
        "outputs",
        "columns",
        "violations"
    );
    for f in figures {
        say!(
            "{:10} {:>12} {:>12.0} {:>10.0} {:>6.1} {:>6.1} {:>6.1} {:>12} {:>12} {:>10}",
            f.mode.name(),
            grouped(f.clocks),
            f.clocks_per_token,
            f.tokens_per_second,
            f.share(f.npu_busy),
            f.share(f.pim_busy),
            f.share(f.both_busy),
            grouped(f.outputs_checked + f.ffn_outputs_checked),
            grouped(f.columns_checked + f.copies_checked),
            f.protocol_violations
        );
    }
    if let Some(reason) = reason {
        say!("{reason}");
    }
    say!("");
    say!(
        "{:10} {:>12} {:>12} {:>9} {:>9} {:>9} {:>8} {:>8} {:>11} {:>11}",
        "mode",
        "NPU idle",
        "PIM idle",
        "weights",
        "new K, V",
        "K, V read",
        "operands",
        "results",
        "FFN moved",
        "MHA moved"
    );
    for f in figures {
        let kb = |bytes: u64| format!("{:.0} kB", bytes as f64 / 1e3);
        let moved = |requests: u32, steps: usize| format!("{requests} in {steps}");
        say!(
            "{:10} {:>12} {:>12} {:>9} {:>9} {:>9} {:>8} {:>8} {:>11} {:>11}",
            f.mode.name(),
            grouped(f.npu_idle),
            grouped(f.pim_idle),
            kb(f.bytes.weights),
            kb(f.bytes.new_keys_and_values),
            kb(f.bytes.keys_and_values + f.bytes.moved),
            kb(f.bytes.operands + f.bytes.inputs),
            kb(f.bytes.results),
            moved(f.ffn_requests, f.ffn_steps),
            moved(f.mha_requests, f.mha_steps)
        );
    }
    say!("");
    say!(
        "Clocks of 1 ns behind the writing of the weights; outputs of the banks, and columns of weights, keys and values that the NPU \
         read, compared bit for bit. Moved: requests in steps of a group."
    );
    for f in figures {
        say!("");
        say!(
            "{:10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            f.mode.name(),
            "RD",
            "RDG",
            "WR",
            "MAC",
            "GBW",
            "RES, SUM",
            "ACT"
        );
        for channel in &f.channels {
            let c = &channel.commands;
            let number = |count: u32| grouped(count.into());
            say!(
                "{:10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                format!("channel {}", channel.channel),
                number(c.read),
                number(c.share),
                number(c.write),
                number(c.mac),
                number(c.load),
                number(c.result + c.sum),
                number(c.activate)
            );
        }
    }
    for f in figures.iter().filter(|_| args.energy) {
        f.energy.print(f.mode.name(), f.tokens);
    }
}
