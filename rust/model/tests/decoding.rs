//! Running the decoder: batching and caching change no bit, backends are interchangeable, errors leave a usable state.

use ndp_files::{Result, fault, said};

use crate::common::model;
use ndp_model::decoder::MAX_BATCH;
use ndp_model::{
    Activation, Decoder, Finish, GemvBackend, GemvClass, GemvOp, GenerateOptions, LinearOp, Model,
    SoftwareBackend, generate, generate_tokens, logits_digest,
};
use ndp_numerics::{
    Epsilon, ExactSum, Sampling, SerialSteps, add, f16, layer_norm, mul, relu, rne_ratio, softmax,
};

const VOCAB: usize = 29;

fn tokens(len: usize) -> Vec<u32> {
    (0..len).map(|i| (i * i + 3 * i + 1) as u32 % VOCAB as u32).collect()
}

fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Logits after each token by definition: the whole sequence at once, without cache, batch or backend.
fn reference_logits(model: &Model, tokens: &[u32]) -> Vec<Vec<f16>> {
    let dot = |w: &[f16], x: &[f16]| {
        let mut sum = ExactSum::default();
        w.iter().zip(x).for_each(|(&w, &x)| sum.mul_add(w, x));
        sum.round()
    };
    let linear = |l: &ndp_model::weights::Linear, x: &[f16]| -> Vec<f16> {
        (0..l.weight.rows()).map(|r| add(dot(l.weight.row(r), x), l.bias.as_ref().unwrap()[r])).collect()
    };
    let normed = |n: &ndp_model::weights::Norm, x: &[f16]| {
        layer_norm(x, &n.gain, n.bias.as_ref().unwrap(), Epsilon::OPT).unwrap()
    };
    let sum = |a: &[f16], b: &[f16]| -> Vec<f16> { a.iter().zip(b).map(|(&a, &b)| add(a, b)).collect() };
    let width = model.config.head_width();
    // 1 / sqrt(8) is nearest to 1448.15.. / 4096.
    assert_eq!(width, 8);
    let scale = rne_ratio(14_481_547, 40_960_000);
    let mut h: Vec<Vec<f16>> = tokens
        .iter()
        .enumerate()
        .map(|(p, &t)| {
            sum(model.embed_tokens.row(t as usize), model.embed_positions.as_ref().unwrap().row(p + 2))
        })
        .collect();
    let mut soft = 0; // probabilities that are neither 0 nor 1
    for layer in &model.layers {
        let a: Vec<Vec<f16>> = h
            .iter()
            .map(|h| {
                let a = normed(layer.attention_norm.as_ref().unwrap(), h);
                if model.config.relu_before_qkv() { a.into_iter().map(relu).collect() } else { a }
            })
            .collect();
        let k: Vec<_> = a.iter().map(|a| linear(&layer.k_proj, a)).collect();
        let v: Vec<_> = a.iter().map(|a| linear(&layer.v_proj, a)).collect();
        for p in 0..h.len() {
            let q: Vec<f16> = linear(&layer.q_proj, &a[p]).into_iter().map(|q| mul(q, scale)).collect();
            let mut o = Vec::new();
            for head in (0..q.len()).step_by(width) {
                let of = |x: &[f16]| x[head..head + width].to_vec();
                let scores: Vec<f16> = (0..=p).map(|j| dot(&of(&k[j]), &of(&q))).collect();
                let probabilities = softmax(&scores);
                soft += probabilities.iter().filter(|p| (0.05..0.95).contains(&p.to_f64())).count();
                for i in head..head + width {
                    let column: Vec<f16> = v[..=p].iter().map(|v| v[i]).collect();
                    o.push(dot(&column, &probabilities));
                }
            }
            h[p] = sum(&h[p], &linear(&layer.out_proj, &o));
            let f = normed(layer.ffn_norm.as_ref().unwrap(), &h[p]);
            let f: Vec<f16> = linear(&layer.experts[0].fc1, &f).into_iter().map(relu).collect();
            h[p] = sum(&h[p], &linear(&layer.experts[0].fc2, &f));
        }
    }
    assert!(soft > tokens.len(), "the attention of this model is one-hot");
    h.iter()
        .map(|h| normed(model.final_norm.as_ref().unwrap(), h))
        .map(|y| (0..model.config.vocab_size()).map(|t| dot(model.embed_tokens.row(t), &y)).collect())
        .collect()
}

#[test]
fn incremental_batched_and_reference_agree_bit_for_bit() {
    for relu_before_qkv in [false, true] {
        let model = model(VOCAB, relu_before_qkv, 7);
        let tokens = tokens(2 * MAX_BATCH + 3);
        let expected = reference_logits(&model, &tokens);
        // Otherwise the comparison would be void.
        assert!(expected.iter().flatten().all(|l| l.is_finite()));
        assert!(expected.windows(2).all(|pair| bits(&pair[0]) != bits(&pair[1])));

        let mut backend = SoftwareBackend::new();
        let mut steps = Decoder::new(&model);
        for (p, &token) in tokens.iter().enumerate() {
            assert_eq!(bits(&steps.step(&mut backend, token).unwrap()), bits(&expected[p]), "position {p}");
        }
        let all = Decoder::new(&model).prefill_all_logits(&mut backend, &tokens).unwrap();
        assert_eq!(bits(&all), bits(&expected.concat()));
        for split in [1, 5, MAX_BATCH, MAX_BATCH + 1, tokens.len() - 1] {
            let mut decoder = Decoder::new(&model);
            let first = decoder.prefill(&mut backend, &tokens[..split]).unwrap();
            assert_eq!(bits(&first), bits(&expected[split - 1]));
            let last = decoder.prefill(&mut backend, &tokens[split..]).unwrap();
            assert_eq!(bits(&last), bits(&expected[tokens.len() - 1]));
            assert_eq!(decoder.position(), tokens.len());
            assert_eq!(decoder.sparsity(), steps.sparsity());
        }
    }
}

#[test]
fn other_families_give_the_same_bits_however_their_tokens_are_divided() {
    for config in crate::common::other_configs() {
        let (model, stored) = crate::common::model_and_tensors(config, 21);
        let elements: usize = stored.iter().map(|(_, _, bytes)| bytes.len() / 2).sum();
        assert_eq!(model.parameters(), elements);
        let (tokens, mut backend) = (tokens(MAX_BATCH + 5), SoftwareBackend::new());
        let all = Decoder::new(&model).prefill_all_logits(&mut backend, &tokens).unwrap();
        let rows: Vec<_> = all.chunks(VOCAB).map(bits).collect();
        assert!(all.iter().all(|l| l.is_finite()) && rows.windows(2).all(|pair| pair[0] != pair[1]));
        let mut decoder = Decoder::new(&model);
        for (token, expected) in tokens.iter().zip(&rows) {
            assert_eq!(&bits(&decoder.step(&mut backend, *token).unwrap()), expected);
        }
        for split in [1, 7, MAX_BATCH] {
            let mut decoder = Decoder::new(&model);
            let first = decoder.prefill(&mut backend, &tokens[..split]).unwrap();
            assert_eq!(bits(&first), rows[split - 1]);
            assert_eq!(
                bits(&decoder.prefill(&mut backend, &tokens[split..]).unwrap()),
                rows[tokens.len() - 1]
            );
        }
        let [first, second] = decoder.sparsity() else { panic!("two layers") };
        let relu = model.config.activation() == Activation::Relu;
        assert!(!relu || [first, second].iter().all(|layer| layer.ffn_hidden.fraction() > 0.2));
    }
}

#[test]
fn a_window_matters_once_it_is_full() {
    let configs = crate::common::other_configs();
    let config = configs.into_iter().find(|config| config.window(0) == Some(5)).unwrap();
    let (model, _) = crate::common::model_and_tensors(config, 22);
    let mut whole = model.clone();
    whole.config = crate::common::whole(&model.config);
    let (tokens, mut software) = (tokens(9), SoftwareBackend::new());
    let of = |model: &Model, backend: &mut SoftwareBackend| {
        Decoder::new(model).prefill_all_logits(backend, &tokens).unwrap()
    };
    let [windowed, unwindowed] = [&model, &whole].map(|model| of(model, &mut software));
    let equal = windowed.chunks(VOCAB).zip(unwindowed.chunks(VOCAB)).map(|(a, b)| bits(a) == bits(b));
    assert_eq!(equal.collect::<Vec<_>>(), (0..9).map(|position| position < 5).collect::<Vec<_>>());
}

#[test]
fn activations_beyond_fp16_are_reported_with_layer_and_operation() {
    let mut configs = crate::common::other_configs().into_iter();
    let config = configs.find(|config| config.extras().unit_gains && config.extras().score_cap.is_none());
    let large = f16::from_bits(0x7BFF);
    let run = |model: &Model| Decoder::new(model).prefill(&mut SoftwareBackend::new(), &tokens(5)).map(drop);
    let (good, _) = crate::common::model_and_tensors(config.unwrap(), 23);
    run(&good).unwrap();
    let mut model = good.clone();
    model.layers[1].attention_norm.as_mut().unwrap().gain.fill(large);
    let text = said(&run(&model));
    assert!(text.starts_with("layers.1.") && text.ends_with("is beyond FP16's range, 65504"), "{text}");
    let mut model = good.clone();
    model.final_norm.as_mut().unwrap().gain.fill(large);
    assert!(said(&run(&model)).starts_with("final_norm: element "));
}

#[test]
fn a_gate_that_is_shut_lets_nothing_through() {
    let [zero, one, infinity] = [0x0000, 0x3C00, 0x7C00].map(f16::from_bits);
    let (weights, x, bias) = ([infinity, infinity, one], [one], [zero, zero, one]);
    let up = GemvOp::new("up", GemvClass::Up, (3, 1), &weights, &x).unwrap();
    let of = |values: &[f16], shuts| {
        let op = LinearOp::new(up, Some(&bias), Finish::Gate { values, shuts });
        op.map(|op| bits(&SoftwareBackend::new().linear(&op).unwrap()))
    };
    let gate = [zero, one, one];
    assert_eq!(of(&gate, true).unwrap(), [0x0000, 0x7C00, 0x4000]);
    assert_eq!(of(&gate, false).unwrap(), [0x7E00, 0x7C00, 0x4000]);
    let refused = of(&gate[..2], true);
    assert!(said(&refused).contains(" 2 elements, expected 3"));
}

#[test]
fn sparsity_counts_every_position_once() {
    for relu_before_qkv in [false, true] {
        let model = model(VOCAB, relu_before_qkv, 8);
        let mut decoder = Decoder::new(&model);
        decoder.prefill(&mut SoftwareBackend::new(), &tokens(20)).unwrap();
        for layer in decoder.sparsity() {
            assert_eq!((layer.qkv_input.total, layer.ffn_hidden.total), (20 * 24, 20 * 40));
            assert!((0.1..0.9).contains(&layer.ffn_hidden.fraction()));
            assert_eq!(layer.qkv_input.fraction() > 0.1, relu_before_qkv);
        }
    }
}

/// Records operations; on demand flips one bit of a result, or fails.
#[derive(Default)]
struct Probe {
    inner: SoftwareBackend,
    seen: Vec<(String, GemvClass, usize, usize, usize)>,
    flip: Option<&'static str>,
    fail: Option<&'static str>,
    shorten: Option<&'static str>,
}

impl GemvBackend for Probe {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.seen.push((op.label().to_owned(), op.class(), op.rows(), op.cols(), op.batch()));
        if self.fail == Some(op.label()) {
            return Err(fault!("the link is down"));
        }
        let mut y = self.inner.gemv(op).unwrap();
        if self.flip == Some(op.label()) {
            // Of the last position, whose logits the caller sees.
            let last = y.len() - 1;
            y[last] = f16::from_bits(y[last].to_bits() ^ 0x0200);
        }
        if self.shorten == Some(op.label()) {
            y.pop();
        }
        Ok(y)
    }
}

#[test]
fn every_product_goes_through_the_backend_with_its_shape() {
    let model = model(VOCAB, false, 9);
    let mut probe = Probe::default();
    Decoder::new(&model).prefill(&mut probe, &tokens(3)).unwrap();
    let per_layer = 3 + 3 * 3 * 2 + 3; // q k v, three positions of three heads, out fc1 fc2
    assert_eq!(probe.seen.len(), 2 * per_layer + 1);
    let find = |label: &str| -> Vec<_> {
        let found = probe.seen.iter().filter(|(l, ..)| l == label);
        found.map(|(_, class, rows, cols, batch)| (*class, *rows, *cols, *batch)).collect()
    };
    assert_eq!(find("layers.0.k_proj"), [(GemvClass::Qkv, 24, 24, 3)]);
    assert_eq!(find("layers.1.out_proj"), [(GemvClass::Proj, 24, 24, 3)]);
    assert_eq!(find("layers.1.fc1"), [(GemvClass::Fc1, 40, 24, 3)]);
    assert_eq!(find("layers.1.fc2"), [(GemvClass::Fc2, 24, 40, 3)]);
    assert_eq!(find("layers.1.head.2.scores"), [1, 2, 3].map(|n| (GemvClass::Scores, n, 8, 1)));
    assert_eq!(find("layers.1.head.0.context"), [1, 2, 3].map(|n| (GemvClass::Context, 8, n, 1)));
    assert_eq!(find("lm_head"), [(GemvClass::Head, VOCAB, 24, 1)]);
}

#[test]
fn one_wrong_bit_of_a_backend_shows_in_the_digest() {
    let model = model(VOCAB, false, 10);
    let digest = |flip| {
        let mut probe = Probe { flip, ..Probe::default() };
        logits_digest(&Decoder::new(&model).prefill(&mut probe, &tokens(4)).unwrap())
    };
    assert_eq!(digest(None), digest(None));
    for label in ["layers.0.v_proj", "layers.1.head.1.scores", "layers.1.fc2", "lm_head"] {
        assert_ne!(digest(Some(label)), digest(None), "{label}");
    }
}

#[test]
fn a_failed_batch_leaves_the_sequence_where_it_was() {
    let model = model(VOCAB, false, 11);
    let (mut decoder, tokens) = (Decoder::new(&model), tokens(6));
    let mut probe = Probe::default();
    decoder.prefill(&mut probe, &tokens[..4]).unwrap();
    probe.fail = Some("layers.1.fc1");
    let error = decoder.prefill(&mut probe, &tokens[4..]).unwrap_err();
    assert_eq!(format!("{error:#}"), "layers.1.fc1: the backend failed: the link is down");
    assert_eq!(decoder.position(), 4);
    probe.fail = None;
    probe.shorten = Some("layers.0.fc2");
    let error = decoder.prefill(&mut probe, &tokens[4..]).unwrap_err();
    assert!(error.to_string().contains(" 47 elements, expected 48"), "{error}");
    probe.shorten = None;
    let logits = decoder.prefill(&mut probe, &tokens[4..]).unwrap();
    assert_eq!(bits(&logits), bits(&reference_logits(&model, &tokens)[5]));
}

#[test]
fn fewer_serial_steps_change_the_result_and_are_reproducible() {
    let model = model(VOCAB, false, 12);
    let digest = |steps| {
        let mut backend = SoftwareBackend::with_serial_steps(SerialSteps::new(steps).unwrap());
        logits_digest(&Decoder::new(&model).prefill(&mut backend, &tokens(4)).unwrap())
    };
    assert_eq!(digest(8), digest(8));
    assert_ne!(digest(8), digest(11));
}

#[test]
fn bad_requests_are_refused() {
    let model = model(VOCAB, false, 13);
    let mut backend = SoftwareBackend::new();
    let mut decoder = Decoder::new(&model);
    let says = |result: &ndp_files::Result<_>, text: &str| assert!(said(result).contains(text));
    says(&decoder.prefill(&mut backend, &[]).map(drop), "the prompt is empty");
    let outside = "token 29 is outside the vocabulary, vocab_size = 29";
    says(&decoder.prefill(&mut backend, &[1, 29]).map(drop), outside);
    let too_long = "the text needs 49 positions, but the model supports 48";
    says(&decoder.prefill(&mut backend, &tokens(49)).map(drop), too_long);
    decoder.prefill(&mut backend, &tokens(48)).unwrap();
    says(&decoder.step(&mut backend, 0).map(drop), too_long);
    let options = GenerateOptions::new(9, 0, 0);
    let run = |prompt: &[u32], options: &GenerateOptions| {
        generate_tokens(&model, &mut SoftwareBackend::new(), prompt, options, |_| ()).map(|g| g.tokens.len())
    };
    says(&run(&[], &options).map(drop), "the prompt is empty");
    says(&run(&tokens(40), &options).map(drop), too_long);
    assert_eq!(run(&tokens(39), &options).unwrap(), 9);
    let hot = GenerateOptions { sampling: Sampling::at(1001), ..options.clone() };
    says(&run(&tokens(3), &hot).map(drop), "temperature = 1001 percent");
    let bytes = generate(&model, &mut backend, b"a", &options, |_| ()).map(drop);
    says(&bytes, "vocab_size = 29, expected 256");
}

#[test]
fn logits_that_are_not_finite_stop_the_sampler() {
    let mut model = model(VOCAB, false, 14);
    model.final_norm.as_mut().unwrap().bias.as_mut().unwrap()[3] = f16::from_bits(0x7C00);
    let options = GenerateOptions::new(2, 100, 0);
    let error =
        generate_tokens(&model, &mut SoftwareBackend::new(), &tokens(2), &options, |_| ()).unwrap_err();
    let expected =
        "generated token 0: logit 0 is not finite: 0x7e00; weights or activations of the model overflow FP16";
    assert_eq!(format!("{error:#}"), expected);
}

#[test]
fn generation_is_determined_by_its_options() {
    let model = model(256, true, 15);
    let run = |temperature_percent, seed| {
        let options = GenerateOptions::new(20, temperature_percent, seed);
        let mut events = Vec::new();
        let generation = generate(&model, &mut SoftwareBackend::new(), b"Hermes", &options, |t| {
            assert_eq!(t.logits_digest, logits_digest(t.logits));
            events.push((t.index, t.token, t.logits_digest));
        });
        let generation = generation.unwrap();
        let expected: Vec<_> =
            (0..20).map(|i| (i, generation.tokens[i], generation.logits_digests[i])).collect();
        assert_eq!(events, expected);
        generation
    };
    let first = run(800, 1);
    assert_eq!(first, run(800, 1));
    assert_ne!(first.tokens, run(800, 2).tokens);
    assert_eq!(first.logits_digests[0], run(800, 2).logits_digests[0]);
    assert_eq!(run(0, 1), run(0, 2));
    let bytes: Vec<u8> = first.tokens.iter().map(|&t| t as u8).collect();
    assert_eq!(first.text, String::from_utf8_lossy(&bytes));
    assert_eq!(first.sparsity[0].qkv_input.total, (6 + 19) * 24);

    // As when prompt and tokens run in one go.
    let mut sequence: Vec<u32> = b"Hermes".iter().map(|&b| u32::from(b)).collect();
    sequence.extend(&first.tokens[..19]);
    let all = Decoder::new(&model).prefill_all_logits(&mut SoftwareBackend::new(), &sequence).unwrap();
    let digests: Vec<u64> = all.chunks(256).skip(5).map(logits_digest).collect();
    assert_eq!(digests, first.logits_digests);

    let none = GenerateOptions::new(0, 0, 0);
    let empty = generate(&model, &mut SoftwareBackend::new(), b"x", &none, |_| ()).unwrap();
    assert!(empty.tokens.is_empty() && empty.text.is_empty());
}
