//! One decoder layer in one decode step, on the small unit: every division of the heads, contexts of one token and
//! more, several sequences.
//!
//! The backend compares each intermediate result with the reference; here its output is compared with a run in
//! software, the number of comparisons is checked, and injected bits have to be found.

use common::Outcome;
use ndp_config::DesignConfig;
use ndp_isa::Opcode;
use ndp_model::{Activation, GemvClass, SoftwareBackend};
use ndp_numerics::f16;
use ndp_sim::core::{CoreOptions, HostStalls};
use ndp_sim::error::Mismatches;
use ndp_sim::gemv::{BitFlip, GemvOptions, HeadCut};
use ndp_sim::layer::{LayerSizes, LayerStep};
use ndp_sim::system::{LoneCore, Neurons, Phase};
use std::error::Error;

fn open(options: &GemvOptions, neurons: Neurons) -> Result<LoneCore, Box<dyn Error>> {
    Ok(LoneCore::open(&DesignConfig::preset("tiny")?, options)?.with_neurons(neurons))
}

fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Runs a step in RTL and in software.
fn agrees(
    sizes: &LayerSizes,
    context: usize,
    batch: usize,
    neurons: Neurons,
) -> Result<LoneCore, Box<dyn Error>> {
    let seed = (context * 31 + batch) as u64;
    let step = LayerStep::random(sizes, context, batch, seed)?;
    let options = GemvOptions::from(CoreOptions {
        stalls: HostStalls::both(3),
        predict: true,
        ..CoreOptions::default()
    });
    let mut backend = open(&options, neurons)?;
    let output = step.run(&mut backend).map_err(|e| format!("{sizes:?}, {context}, {batch}: {e:?}"))?;
    let expected = step.run(&mut SoftwareBackend::new())?;
    assert_eq!(bits(&output.hidden), bits(&expected.hidden), "{sizes:?}, context {context}, batch {batch}");
    assert_eq!(output.sparsity, expected.sparsity);

    // Q, contexts, projection, FC2; K, V, the rows of both caches; FC1; gated products with an open gate.
    let kv = sizes.hidden / sizes.heads * sizes.kv_heads;
    let checked = (batch * (4 * sizes.hidden + 4 * kv + sizes.ffn)) as u64;
    let gated = if sizes.gated { 1..=(batch * sizes.ffn) as u64 } else { 0..=0 };
    assert!(gated.contains(&(backend.total().outputs_checked - checked)), "{sizes:?}");
    assert!(backend.mismatches().is_empty());
    assert_eq!(backend.unit().core().protocol_violations(), 0);
    let sums = backend.sums();
    let (phases, ranks) = (&sums.phases, backend.unit().config().gemv().ranks());
    assert_eq!(phases.total(), backend.total().cycles);
    assert_eq!(backend.model_cycles(), backend.total().cycles, "{sizes:?}, context {context}, batch {batch}");
    for phase in [Phase::Qkv, Phase::Append, Phase::Scores, Phase::Softmax, Phase::Context, Phase::Fc2] {
        assert!(phases.get(phase) > 0, "{phase:?}");
    }
    assert_eq!(phases.get(Phase::Head), 0);
    let counters = &sums.counters;
    assert_eq!(counters.accounted(ranks), u64::from(ranks) * u64::from(counters.cycles));
    Ok(backend)
}

#[test]
fn layers_of_all_shapes_equal_the_software_model() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    // Stripes have 64 elements: heads of one stripe, several to a stripe, with some left over, and heads that do not
    // divide it.
    for (hidden, heads, ffn, segments, context, batch) in [
        (64, 1, 96, 1, 1, 1),
        (128, 2, 100, 1, 33, 2),
        (64, 8, 40, 8, 40, 3),
        (96, 3, 70, 2, 130, 1),
        (72, 3, 33, 1, 5, 5),
        (80, 5, 64, 4, 2, 4),
    ] {
        let sizes = LayerSizes {
            hidden,
            heads,
            kv_heads: heads,
            ffn,
            gated: false,
            activation: Activation::Relu,
            active: None,
        };
        assert_eq!(HeadCut::new(&config, heads, hidden / heads)?.segments, segments);
        let [all, active] = [Neurons::All, Neurons::Active].map(|n| agrees(&sizes, context, batch, n));
        let (all, active) = (all?, active?);
        assert!(active.total().macs < all.total().macs, "{sizes:?}");
        let groups = HeadCut::new(&config, heads, hidden / heads)?.groups() as u64;
        assert_eq!(all.classes()[&GemvClass::Scores].calls, groups * batch as u64);
        // AXPY only in attention; everything after products in the activation unit.
        assert_eq!(all.sums().opcodes[&Opcode::Axpy].count, groups * batch as u64);
        let activation = all.sums().activation;
        assert!(activation.count >= 10 && activation.cycles > 0);
    }
    Ok(())
}

#[test]
fn layers_with_grouped_queries_and_gates_equal_the_software_model() -> Outcome {
    for (hidden, heads, kv_heads, ffn, gated, context, batch) in
        [(128, 4, 2, 100, true, 33, 2), (64, 8, 2, 40, false, 70, 1), (96, 3, 1, 70, true, 9, 3)]
    {
        let sizes =
            LayerSizes { hidden, heads, kv_heads, ffn, gated, activation: Activation::Relu, active: None };
        agrees(&sizes, context, batch, Neurons::Active)?;
    }
    let refused = LayerSizes {
        hidden: 64,
        heads: 8,
        kv_heads: 3,
        ffn: 40,
        gated: false,
        activation: Activation::Relu,
        active: None,
    };
    let refused = LayerStep::random(&refused, 2, 1, 1).map_err(|error| error.to_string());
    assert_eq!(refused.err().as_deref(), Some("3 key and value heads, expected a divisor of the 8 heads"));
    Ok(())
}

#[test]
fn a_long_context_fills_the_buffer_and_a_longer_one_is_refused() -> Outcome {
    let sizes = LayerSizes {
        hidden: 16,
        heads: 2,
        kv_heads: 2,
        ffn: 8,
        gated: false,
        activation: Activation::Relu,
        active: None,
    };
    let fits = LayerSizes {
        hidden: 64,
        heads: 8,
        kv_heads: 8,
        ffn: 8,
        gated: false,
        activation: Activation::Relu,
        active: None,
    };
    agrees(&fits, 700, 1, Neurons::Active)?;
    let step = LayerStep::random(&fits, 900, 1, 1)?;
    let error = format!("{:?}", step.run(&mut open(&GemvOptions::default(), Neurons::All)?));
    assert!(error.contains("a context of 900 tokens and 8 heads") && error.contains("at most 64"), "{error}");
    agrees(&sizes, 257, 2, Neurons::All)?;
    Ok(())
}

#[test]
fn one_wrong_bit_is_found_wherever_it_is() -> Outcome {
    let sizes = LayerSizes {
        hidden: 64,
        heads: 8,
        kv_heads: 8,
        ffn: 40,
        gated: false,
        activation: Activation::Relu,
        active: None,
    };
    let step = LayerStep::random(&sizes, 9, 2, 5)?;
    for (flip, expected) in [
        (BitFlip::Key { row: 3, col: 50, bit: 14 }, "layers.0.attention"),
        // The key of the new token.
        (BitFlip::Key { row: 8, col: 1, bit: 14 }, "layers.0.attention"),
        (BitFlip::Result { row: 7, batch: 1, bit: 0 }, "layers.0.q_proj"),
    ] {
        let mut backend = open(&GemvOptions { flip: Some(flip), ..GemvOptions::default() }, Neurons::All)?;
        let Err(source) = step.run(&mut backend) else {
            return Err(format!("{flip} was not found").into());
        };
        assert_eq!(source.to_string(), format!("{expected}: the backend failed"), "{flip}");
        assert!(source.is::<Mismatches>(), "{source:#}");
        assert!(!backend.mismatches().is_empty() && !backend.unit().flip_is_pending());
        assert!(backend.mismatches().iter().all(|mismatch| mismatch.label == expected));
    }
    Ok(())
}

#[test]
fn a_wrong_weight_is_found_unless_its_input_is_zero() -> Outcome {
    let step = LayerStep::random(
        &LayerSizes {
            hidden: 64,
            heads: 8,
            kv_heads: 8,
            ffn: 40,
            gated: false,
            activation: Activation::Relu,
            active: None,
        },
        2,
        2,
        5,
    )?;
    let mut found = 0;
    for col in 0..8 {
        let flip = Some(BitFlip::Weight { row: 2, col, bit: 14 });
        let mut backend = open(&GemvOptions { flip, ..GemvOptions::default() }, Neurons::All)?;
        match step.run(&mut backend) {
            Ok(_) => assert!(backend.mismatches().is_empty()),
            Err(_) => {
                found += 1;
                assert!(
                    backend.mismatches().iter().all(|m| (m.label.as_str(), m.row) == ("layers.0.q_proj", 2))
                );
            }
        }
    }
    // The inputs of QKV come out of a ReLU: half of them are zero, a quarter in both vectors.
    assert!((1..=8).contains(&found), "{found}");
    Ok(())
}

#[test]
fn heads_wider_than_a_stripe_are_refused() -> Outcome {
    let step = LayerStep::random(
        &LayerSizes {
            hidden: 130,
            heads: 2,
            kv_heads: 2,
            ffn: 8,
            gated: false,
            activation: Activation::Relu,
            active: None,
        },
        2,
        1,
        1,
    )?;
    let error = format!("{:?}", step.run(&mut open(&GemvOptions::default(), Neurons::All)?));
    assert!(error.contains("elements of an attention head") && error.contains("1..=64"), "{error}");
    assert!(
        LayerStep::random(
            &LayerSizes {
                hidden: 10,
                heads: 3,
                kv_heads: 3,
                ffn: 8,
                gated: false,
                activation: Activation::Relu,
                active: None
            },
            2,
            1,
            1
        )
        .is_err()
    );
    Ok(())
}
