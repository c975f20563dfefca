//! Capturing the repository's model changes nothing and misses nothing.

use ndp_config::BlockKind;
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate};
use ndp_traces::Activity;
use ndp_traces::capture::{Capture, shape_of};
use std::path::Path;

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
