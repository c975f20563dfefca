//! Rotary embedding on a core: heads of any bits, against the rule of docs/numerics.md written with `ndp_oracle`; in RTL with stalls, and
//! modelled.

use common::Outcome;
use ndp_config::DesignConfig;
use ndp_model::{GemvBackend, RotaryOp};
use ndp_numerics::{Rotary, Rotation, f16};
use ndp_oracle::Random;
use ndp_oracle::ieee::Operation;
use ndp_sim::core::{Backend, CoreOptions, HostStalls};
use ndp_sim::gemv::GemvOptions;
use ndp_sim::system::{LoneCore, Phase};

/// The last case has more pairs than the buffer of `tiny` holds at a time.
const CASES: [(usize, usize, usize); 4] = [(2, 1, 1), (32, 3, 2), (80, 5, 3), (64, 16, 26)];

fn states(elements: usize, seed: u64) -> Vec<f16> {
    let mut random = Random::new(seed);
    (0..elements).map(|_| f16::from_bits(random.next_u16())).collect()
}

fn expected(width: usize, states: &[f16], rotations: &[Rotation]) -> Vec<u16> {
    let mut results: Vec<u16> = states.iter().map(|state| state.to_bits()).collect();
    let (mul, half) = (|a, b| Operation::Mul.result(a, b), width / 2);
    for (token, rotation) in results.chunks_mut(states.len() / rotations.len()).zip(rotations) {
        let [cosines, sines] = rotation.angles();
        for head in token.chunks_mut(width) {
            for i in 0..half {
                let (x, y, c, s) = (head[i], head[i + half], cosines[i].to_bits(), sines[i].to_bits());
                head[i] = Operation::Sub.result(mul(x, c), mul(y, s));
                head[i + half] = Operation::Add.result(mul(y, c), mul(x, s));
            }
        }
    }
    results
}

#[test]
fn heads_of_any_bits_are_rotated_as_the_contract_says() -> Outcome {
    for (backend, stall_percent) in [(Backend::Rtl, 10), (Backend::Rtl, 0), (Backend::Cycles, 0)] {
        let options = GemvOptions::from(CoreOptions {
            backend,
            stalls: HostStalls::both(stall_percent),
            predict: true,
            ..CoreOptions::default()
        });
        let mut core = LoneCore::open(&DesignConfig::preset("tiny")?, &options)?;
        let mut outputs = 0;
        for (width, heads, tokens) in CASES {
            let rotary = Rotary::new(10_000, width)?;
            let rotations: Vec<Rotation> = (0..tokens as u32).map(|token| rotary.at(token * 97)).collect();
            let states = states(width * heads * tokens, width as u64);
            let op = RotaryOp::new("states", width, &states, rotations.iter().collect())?;
            let rotated: Vec<u16> = core.rotate(&op)?.into_iter().map(f16::to_bits).collect();
            assert_eq!(
                rotated,
                expected(width, &states, &rotations),
                "{backend:?}: {width}, {heads}, {tokens}"
            );
            outputs += states.len() as u64;
        }
        let total = core.total();
        assert_eq!((total.outputs_checked, core.model_cycles()), (outputs, total.cycles));
        assert_eq!(core.sums().phases.get(Phase::Rotary), total.cycles);
    }
    Ok(())
}

#[test]
fn rotations_of_other_sizes_are_refused() -> Outcome {
    let (states, rotary) = (states(96, 1), Rotary::new(10_000, 32)?);
    let rotations = [rotary.at(0), rotary.at(1)];
    let of = |width, states, rotations: &[Rotation]| {
        RotaryOp::new("layers.0.q_proj.rotary", width, states, rotations.iter().collect())
            .err()
            .map(|e| e.to_string())
    };
    for (error, parts) in [
        (of(16, &states, &rotations), ["elements of a rotated head", "16"]),
        (of(32, &states, &rotations), ["layers.0.q_proj.rotary: states", "96"]),
        (of(32, &[], &rotations), ["states", "64"]),
    ] {
        let error = error.ok_or("has passed")?;
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    assert_eq!(of(32, &states[..64], &rotations), None);
    Ok(())
}
