//! Attention's products at full width: bits, and cycles against the roofline of DRAM (refresh counted) and multipliers.
//!
//! Keys and values of all heads of a token lie side by side in one row, so a stripe of 512 elements has four heads of
//! 128 or eight of 64. `QK` is a `dot`, `PV` an `axpy` with its rounding. With batch 1 every query has a key of its own
//! (MHA), with batch 4 four queries share one (GQA). Loads and stores of the vectors belong to a program, and are not
//! in the numbers.

use common::Outcome;
use common::check::Checks;
use ndp_config::DesignConfig;
use ndp_model::{
    Activation, AttentionOp, AttentionSpan, GemvBackend, GemvClass, LayerCache, SoftwareBackend,
};
use ndp_numerics::{Decimal, SoftCap, f16};
use ndp_sim::core::{Backend, CoreOptions, NdpCore};
use ndp_sim::gemv::{GemvOptions, GemvUnit};
use ndp_sim::layer::{LayerSizes, LayerStep};
use ndp_sim::stimulus::DataKind;
use ndp_sim::system::LoneCore;
use ndp_testkit::RandomPrograms;
use std::error::Error;
use std::io::Write;

/// The keys or values of one step: tokens, elements of a head, queries that share it.
#[derive(Clone, Copy, Debug)]
struct Attention {
    tokens: u32,
    head: u32,
    batch: u32,
}

/// Bursts at which a program's data lie: queries, scalars, results; and the matrix, in each rank.
const X: u32 = 0x1_0000;
const A: u32 = 0x2_0000;
const Y: u32 = 0x4_0000;
const MATRIX: u32 = 0x10_0000;

/// Lines that move the block (tokens, vectors) at `word`, in parts: blocks with more vectors than a batch have vectors
/// of a word each.
fn move_block(what: &str, word: u32, (tokens, vectors): (u32, u32), address: u32) -> String {
    let place = if what == "load" { "dst" } else { "src" };
    (0..vectors)
        .step_by(16)
        .map(|first| {
            let (word, batch) = (word + first, (vectors - first).min(16));
            let address = address + first * tokens.div_ceil(32);
            format!("{what} {place}={word}, cols={tokens}, batch={batch}, address={address}\n")
        })
        .collect()
}

impl Attention {
    fn heads(self, config: &DesignConfig) -> u32 {
        config.gemv().stripe_elems() / self.head
    }

    /// `QK` with its result stored, or `PV`. A block of scores that does not fit the buffer is cut into chunks of
    /// tokens.
    fn program(self, config: &DesignConfig, scores: bool) -> String {
        let (cols, heads, batch) = (config.gemv().stripe_elems(), self.heads(config), self.batch);
        let vectors = batch * heads;
        let seed = self.tokens + self.head + batch;
        let bursts = cols / 32 * batch;
        let mut text = format!(
            ".matrix {MATRIX} rows={} cols={cols} seed={seed} kind=normal\n.random {X} bursts={bursts} seed=3 kind=normal\n\
             .random {A} bursts={} seed=4 kind=normal\n",
            self.tokens,
            self.tokens / 32 * vectors,
        );
        // Sums first, then scalars or scores; four words are left for the queries.
        let sums = ndp_isa::accumulator_words(config, cols, batch);
        let most = config.gemv().slice_words() - if scores { 4 } else { sums };
        let chunk = [4096, 2048, 1024].into_iter().find(|chunk| {
            let words = ndp_isa::block_words(config, *chunk, 1);
            (vectors <= 16 || words == 1) && words * vectors <= most
        });
        let chunk = chunk.unwrap_or(1024).min(self.tokens);
        let product = format!("cols={cols}, batch={batch}, count={chunk}, heads={heads}");
        text += &match scores {
            true => format!("load dst=0, cols={cols}, batch={batch}, address={X}\n"),
            false => format!("zero dst=0, count={sums}\n"),
        };
        for first in (0..self.tokens).step_by(chunk as usize) {
            // The rows of a chunk begin at a stripe of every rank.
            let stripes = first / config.gemv().ranks();
            let matrix = MATRIX + stripes * config.gemv().beats_per_stripe();
            let offset = first / 32 * vectors;
            if scores {
                text += &format!("dot src=0, dst=4, {product}, address={matrix}\nbarrier\n");
                text += &move_block("store", 4, (chunk, vectors), Y + offset);
                text += "barrier\n";
            } else {
                text += &move_block("load", sums, (chunk, vectors), A + offset);
                text += "barrier\n";
                text += &format!("axpy src={sums}, dst=0, {product}, address={matrix}\nbarrier\n");
            }
        }
        if !scores {
            text += &format!("round src=0, dst=0, cols={cols}, batch={batch}\nbarrier\n");
            text += &format!("store src=0, cols={cols}, batch={batch}, address={Y}\n");
        }
        let bursts = if scores { self.tokens / 32 * vectors } else { bursts };
        text + &format!(".dump {Y} bursts={bursts}\n")
    }

    /// Cycles at the roofline over cycles of products and rounding. Every result is compared.
    fn efficiency(self, config: &DesignConfig, scores: bool) -> Result<f64, Box<dyn Error>> {
        let mut core = NdpCore::open(config, &CoreOptions::default())?;
        let program = ndp_isa::parse(&self.program(config, scores))?;
        let check = core.check_program(&program, |_| {})?;
        assert!(check.agrees(), "{self:?}: {:?}, {:?}", check.mismatches.first(), check.differences);
        assert_eq!(check.elements, 32 * check.bursts, "{self:?}: some results are unspecified");
        core.check_protocol()?;
        let counters = core.counters()?;
        let cycles = counters.product + counters.round;
        let macs = f64::from(self.tokens * config.gemv().stripe_elems()) * f64::from(self.batch);
        let reached = macs / config.roofline_macs_per_cycle(self.batch) / f64::from(cycles);
        let what = if scores { "QK" } else { "PV" };
        // Past the capture of `cargo test`, so that the log of a run has it.
        let _ = writeln!(std::io::stderr(), "{what} {self:?}: {cycles} cycles, {reached:.3} of the roofline");
        Ok(reached)
    }
}

/// All head widths, batches and both products at some lengths of the context.
fn reach_the_roofline(contexts: &[u32], least: f64) -> Outcome {
    let config = DesignConfig::preset("hermes")?;
    for &tokens in contexts {
        for (head, batch) in [(64, 1), (128, 1), (64, 4), (128, 4)] {
            for scores in [true, false] {
                let attention = Attention { tokens, head, batch };
                let reached = attention.efficiency(&config, scores)?;
                // A product that takes a few refresh intervals can meet fewer refreshes than its share.
                assert!((least..=1.02).contains(&reached), "{attention:?}, scores {scores}: {reached}");
            }
        }
    }
    Ok(())
}

#[test]
fn short_heads_reach_the_roofline() -> Outcome {
    reach_the_roofline(&[1024], 0.9)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn short_heads_of_long_contexts_reach_the_roofline() -> Outcome {
    reach_the_roofline(&[2048, 4096], 0.94)
}

/// By the cycle model: each key and value is read once for the four queries that share it.
#[test]
fn grouped_queries_reach_the_roofline() -> Outcome {
    let options = GemvOptions::from(CoreOptions { backend: Backend::Cycles, ..CoreOptions::default() });
    for (hidden, context) in [(4096, 512), (4096, 1024), (2048, 512)] {
        let sizes = LayerSizes {
            hidden,
            heads: 32,
            kv_heads: 8,
            ffn: 64,
            gated: false,
            activation: Activation::Relu,
            active: None,
        };
        let step = LayerStep::random(&sizes, context, 1, 3)?;
        let mut core = LoneCore::open(&DesignConfig::preset("hermes")?, &options)?;
        step.run(&mut core)?;
        for class in [GemvClass::Scores, GemvClass::Context] {
            let reached = core.classes()[&class].efficiency();
            println!("{hidden}, {context}, {class:?}: {reached:.3}");
            assert!((0.9..=1.0).contains(&reached), "{hidden}, {context}, {class:?}: {reached}");
        }
    }
    Ok(())
}

#[test]
fn random_programs_at_full_width_do_what_they_say() -> Outcome {
    let config = DesignConfig::preset("hermes")?;
    let mut core = NdpCore::open(&config, &CoreOptions::default())?;
    let mut heads = 0;
    for (index, program) in RandomPrograms::new(&config, 6).take(30).enumerate() {
        let check = core.check_program(&program, |_| {})?;
        let first = check.mismatches.first();
        assert!(check.agrees(), "program {index}: {first:x?}, {:?}\n{program}", check.differences);
        heads += program.to_string().matches("heads=").count();
    }
    core.check_protocol()?;
    assert!(heads >= 10, "{heads} products of several heads");
    Ok(())
}

/// Attention of a batch whose query heads share key heads, against software: contexts, and keys and values appended by
/// the core.
#[test]
fn heads_of_queries_that_share_keys_are_attended_together() -> Outcome {
    for (name, heads, kv_heads, width) in [("tiny", 6, 2, 16), ("tiny", 12, 3, 32), ("hermes", 16, 2, 128)] {
        let config = DesignConfig::preset(name)?;
        let (mut unit, _) = GemvUnit::open(
            &config,
            &GemvOptions::from(CoreOptions { predict: true, ..CoreOptions::default() }),
        )?;
        let mut cache = LayerCache::new(kv_heads, width);
        let draw = |count, seed| DataKind::Gaussian.weights(1, count, seed);
        for (position, tokens) in [(0, 2), (2, 1), (3, 2)] {
            for row in position..position + tokens {
                let row = row as u64;
                cache.push(&draw(kv_heads * width, 50 + row), &draw(kv_heads * width, 90 + row));
            }
            let queries = draw(tokens * heads * width, position as u64 + 1);
            let span = AttentionSpan { sequence: 0, position, tokens, cache: &cache };
            let op = AttentionOp::new(0, (heads, width), 8, &queries, vec![span])?;
            let expected = SoftwareBackend::new().attend(&op)?;
            let run = unit.attend(&op)?;
            let expected: Vec<u16> = expected.iter().map(|value| value.to_bits()).collect();
            assert_eq!(
                run.context, expected,
                "{name}, {heads} heads, {kv_heads} of keys, position {position}"
            );
            let appended: Vec<u16> = (position..position + tokens)
                .flat_map(|row| (0..kv_heads).flat_map(move |head| (0..width).map(move |at| (head, row, at))))
                .map(|(head, row, at)| cache.keys(head, row + 1)[row * width + at].to_bits())
                .collect();
            assert_eq!(run.keys, appended);
            assert_eq!(run.attend.model_cycles, Some(run.attend.cycles));
        }
    }
    let cache = LayerCache::new(4, 16);
    let span = AttentionSpan { sequence: 0, position: 0, tokens: 0, cache: &cache };
    let error = AttentionOp::new(0, (6, 16), 8, &[Default::default(); 96], vec![span]).err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("a divisor of those of the queries") && text.contains('4'), "{text}");
    Ok(())
}

/// A key whose score overflows, and then values that are not finite, shortly before the window. Windows begin at any
/// row, on two and on four ranks; some blocks of scores have more vectors than a load.
#[test]
fn a_query_sees_only_its_window() -> Outcome {
    let cap = SoftCap::new(Decimal::whole(2)).ok_or("a soft cap")?;
    for (name, heads, kv_heads, width, window, cap) in [
        ("tiny", 6, 2, 16, 5, None),
        ("tiny", 12, 3, 32, 6, Some(cap)),
        ("tiny", 32, 16, 4, 3, None),
        ("tiny", 32, 16, 4, 7, Some(cap)),
        ("hermes", 16, 2, 128, 6, None),
        ("hermes", 4, 2, 256, 5, Some(cap)),
    ] {
        let config = DesignConfig::preset(name)?;
        let options = GemvOptions::from(CoreOptions { predict: true, ..CoreOptions::default() });
        let (mut unit, _) = GemvUnit::open(&config, &options)?;
        let mut cache = LayerCache::new(kv_heads, width);
        let draw = |count, seed| DataKind::Gaussian.weights(1, count, seed);
        let large = f16::from_bits(0x7BFF);
        for (position, tokens) in [(0, 9), (9, 1), (10, 1), (11, 1), (12, 3)] {
            for row in position..position + tokens {
                let mut key = draw(kv_heads * width, 50 + row as u64);
                if row == 4 {
                    key.iter_mut().step_by(width).for_each(|key| *key = large);
                }
                cache.push(&key, &draw(kv_heads * width, 90 + row as u64));
            }
            let mut queries = draw(tokens * heads * width, position as u64 + 1);
            queries.iter_mut().step_by(width).for_each(|query| *query = large);
            let span = AttentionSpan { sequence: 0, position, tokens, cache: &cache };
            let op = AttentionOp::new(0, (heads, width), 16, &queries, vec![span])?;
            let op = op.with_window(Some(window)).with_score_cap(cap);
            let expected: Vec<u16> =
                SoftwareBackend::new().attend(&op)?.iter().map(|value| value.to_bits()).collect();
            let run = unit.attend(&op)?;
            assert_eq!(run.context, expected, "{name}, {heads} heads of {width}, position {position}");
            assert_eq!(run.attend.model_cycles, Some(run.attend.cycles));
            let scores = run.scores.map(|(figures, count)| (figures.model_cycles, figures.cycles, count));
            assert_eq!(scores.map(|(model, cycles, _)| model == Some(cycles)), cap.map(|_| true));
        }
        let mut bad = cache.clone();
        bad.truncate(15 - window);
        for row in 15 - window..16 {
            let infinite = vec![f16::INFINITY; kv_heads * width];
            let value = if row == 15 - window { infinite } else { draw(kv_heads * width, 7) };
            bad.push(&draw(kv_heads * width, 8), &value);
        }
        let queries = draw(heads * width, 3);
        let span = AttentionSpan { sequence: 1, position: 15, tokens: 1, cache: &bad };
        let op = AttentionOp::new(0, (heads, width), 16, &queries, vec![span])?.with_window(Some(window));
        let result = unit.attend(&op).map(|run| run.context);
        let is_read = !(16 - window).is_multiple_of(config.gemv().ranks() as usize);
        match result {
            Err(error) => {
                let start =
                    format!("layers.0.attention: element 0 of the value at position {} is inf", 15 - window);
                assert!(is_read && error.to_string().starts_with(&start), "{error}");
            }
            Ok(context) => {
                let expected: Vec<u16> =
                    SoftwareBackend::new().attend(&op)?.iter().map(|value| value.to_bits()).collect();
                assert!(!is_read && context == expected);
            }
        }
    }
    Ok(())
}

#[test]
fn the_time_of_attention_falls_with_the_window() -> Outcome {
    let config = DesignConfig::preset("hermes")?;
    let core = CoreOptions { backend: Backend::Cycles, timing_only: true, ..CoreOptions::default() };
    let (heads, width, positions) = (8, 128, 1024);
    let zeros: std::sync::Arc<[f16]> = vec![f16::ZERO; positions * width].into();
    let mut cache = LayerCache::blank(2, width, &zeros);
    (0..positions).for_each(|_| cache.push(&[], &[]));
    let queries = vec![f16::ZERO; heads * width];
    let cycles = |window: usize| -> Result<u64, Box<dyn Error>> {
        let (mut unit, _) = GemvUnit::open(&config, &GemvOptions::from(core.clone()))?;
        let span = AttentionSpan { sequence: 0, position: positions - 1, tokens: 1, cache: &cache };
        let op = AttentionOp::new(0, (heads, width), positions, &queries, vec![span])?;
        Ok(unit.attend(&op.with_window(Some(window)))?.attend.cycles)
    };
    // With and without a mask.
    for window in [255, 256] {
        let [all, windowed] = [cycles(positions)?, cycles(window)?];
        println!("{window} of {positions} positions: {windowed} of {all} cycles");
        assert!(windowed * 3 < all, "{window}: {windowed} of {all}");
    }
    Ok(())
}
