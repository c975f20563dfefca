//! Capturing the repository's model changes nothing and misses nothing.

use ndp_config::BlockKind;
use ndp_model::{Decoder, GenerateOptions, Model, SoftwareBackend, generate};
use ndp_traces::capture::{Capture, shape_of};
use ndp_traces::{Activity, ones};
use std::path::Path;

/// In a batch, an expert has only the tokens that chose it.
#[test]
fn a_token_has_the_neurons_of_its_experts_in_a_batch_and_by_itself() {
    for (name, used) in [("mixtral", 2), ("qwen3-moe", 3)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/checkpoints").join(name);
        let model = Model::load(&path).unwrap();
        let shape = shape_of(&model.config);
        let captured = |batches: &[&[u32]]| {
            let mut tokens: Vec<Activity> = Vec::new();
            let mut backend = Capture::new(SoftwareBackend::new(), shape.clone(), |activity| {
                tokens.push(activity.clone());
                Ok(())
            });
            let mut decoder = Decoder::new(&model);
            batches.iter().for_each(|batch| drop(decoder.prefill(&mut backend, batch).unwrap()));
            tokens
        };
        let together = captured(&[&[1, 5, 9, 2, 30]]);
        assert_eq!(together, captured(&[&[1], &[5], &[9], &[2], &[30]]), "{name}");
        let width = model.config.ffn_dim() as u32;
        let mut seen = vec![false; model.config.experts()];
        for (index, block) in shape.blocks().iter().enumerate().filter(|(_, of)| of.kind == BlockKind::Mlp) {
            assert_eq!(block.neurons, width * seen.len() as u32);
            for token in &together {
                let mut experts: Vec<u32> = ones(token.block(&shape, index)).map(|n| n / width).collect();
                experts.dedup();
                assert_eq!(experts.len(), used, "{name}");
                experts.iter().for_each(|expert| seen[*expert as usize] = true);
            }
        }
        assert!(seen.iter().filter(|seen| **seen).count() > used, "{name}: {seen:?}");
    }
}

#[test]
fn a_captured_run_is_the_same_run_and_has_its_zeros() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/model");
    let model = Model::load(&path).unwrap();
    let shape = shape_of(&model.config);
    // More than one batch of the prefill, and single tokens.
    let prompt = b"It is a truth universally acknowledged";
    let options = GenerateOptions::new(5, 50, 2);
    let plain = generate(&model, &mut SoftwareBackend::new(), prompt, &options, |_| {}).unwrap();
    let mut tokens: Vec<Activity> = Vec::new();
    let mut backend = Capture::new(SoftwareBackend::new(), shape.clone(), |activity| {
        tokens.push(activity.clone());
        Ok(())
    });
    let captured = generate(&model, &mut backend, prompt, &options, |_| {}).unwrap();
    assert_eq!(captured, plain);
    assert_eq!(tokens.len(), prompt.len() + options.tokens - 1);
    for (index, block) in shape.blocks().iter().enumerate() {
        let layer = &plain.sparsity[block.layer as usize];
        let zeros = if block.kind == BlockKind::Attention { layer.qkv_input } else { layer.ffn_hidden };
        let ones: u64 =
            tokens.iter().flat_map(|t| t.block(&shape, index)).map(|w| u64::from(w.count_ones())).sum();
        assert_eq!(ones, zeros.total - zeros.zeros, "block {index}");
        assert!(zeros.zeros > 0 && ones > 0, "block {index} has both");
    }
    // Tokens differ, so none can stand for another.
    assert!(tokens.windows(2).all(|pair| pair[0] != pair[1]));
}
