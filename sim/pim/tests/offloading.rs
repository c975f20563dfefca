//! Offloading while texts are generated: are they the same whoever computes what, is everything that was moved compared, does the
//! scheduler move both FFN and attention, and are errors found?
#![allow(clippy::unwrap_used)]

mod common;

use common::{assert_texts, memory, prompts, random_model};
use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_model::Model;
use ndp_offloading::{Device, Hardware, Rule};
use ndp_pim::{Arrangement, Machine, Offloading, Outcome, PimError, Pins, Prompt, run_arranged};

fn run(
    model: &Model,
    config: &HbmConfig,
    hardware: &Hardware,
    offloading: Offloading,
    prompts: &[Prompt],
) -> Result<(Outcome, Machine<PseudoChannel>), PimError> {
    let channels = (0..config.channels()).map(|_| PseudoChannel::new(config)).collect::<Result<_, _>>()?;
    let hardware = Hardware { channels: config.channels(), ..hardware.clone() };
    run_arranged(
        model,
        config,
        &hardware,
        Arrangement { groups: 2, offloading, record: 0..0 },
        prompts,
        channels,
    )
}

/// Outputs that the banks computed, by what the decisions and shapes say.
fn expected_products(model: &Model, outcome: &Outcome) -> u64 {
    let config = &model.config;
    let of_request = config.num_hidden_layers() * (config.hidden_size() + config.ffn_dim());
    outcome.decisions.iter().map(|decided| u64::from(decided.share.ffn) * of_request as u64).sum()
}

#[test]
fn texts_are_the_same_with_any_share_on_the_other_device() {
    let prompts = prompts(&[(5, 4), (3, 2), (9, 3), (2, 5), (4, 1), (17, 3)], 64);
    // Rows of inputs: one of both matrices; two of the second one, the last of them with one column and a half.
    for (ffn_width, channels) in [(96, 2), (536, 4)] {
        let model = random_model(64, 4, ffn_width);
        let config = memory(channels);
        let mut reads = Vec::new();
        for (ffn, mha) in [(0, 0), (1, 0), (3, 0), (0, 1), (0, 3), (2, 2)] {
            let offloading = Offloading::Fixed { ffn, mha };
            let (outcome, machine) =
                run(&model, &config, &Hardware::default(), offloading, &prompts).unwrap();
            assert_texts(&model, &prompts, &outcome);
            assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
            assert_eq!(outcome.checked.products, expected_products(&model, &outcome));
            assert_eq!(outcome.checked.products > 0, ffn > 0);
            assert_eq!(outcome.copies_checked > 0, mha > 0);
            reads.push(outcome.columns_checked);
            // Each channel was given something for every product of both.
            let shared = |event: usize| {
                outcome.spans.iter().filter(|span| span.event == event && span.commands.share > 0).count()
            };
            for (number, event) in outcome.events.iter().enumerate() {
                if event.device == Device::Npu && event.label.contains(".fc") && event.step > 0 && ffn > 0 {
                    assert_eq!(shared(number), channels as usize, "{event:?}");
                }
            }
        }
        // Weights are read once, whoever multiplies by them.
        assert!(reads.iter().all(|&columns| columns == reads[0]), "{reads:?}");
    }
}

#[test]
fn the_scheduler_moves_ffns_from_a_slow_npu_and_attention_from_a_memory_with_more_of_it() {
    // Few weights: attention is longer than reading them.
    let attentive = random_model(64, 4, 32);
    // One array of 4 x 4: the NPU computes for longer than it reads.
    let slow = Hardware { arrays: 1, array_side: 4, load_rows: 4, ..Hardware::default() };
    let wide = random_model(64, 4, 256);
    let lengths = [(3, 30), (4, 25), (2, 28), (5, 20), (1, 31), (3, 30), (3, 29), (4, 32)];
    let prompts = prompts(&lengths, 64);
    let config = memory(2);
    for (model, hardware, moves_ffn) in [(&wide, &slow, true), (&attentive, &Hardware::default(), false)] {
        let mut clocks = Vec::new();
        for offloading in [Offloading::None, Offloading::Live(Rule::Slot)] {
            let (outcome, _) = run(model, &config, hardware, offloading, &prompts).unwrap();
            assert_texts(model, &prompts, &outcome);
            clocks.push(outcome.clocks);
            let sum = |share: fn(&ndp_pim::Share) -> u32| {
                outcome.decisions.iter().map(|decided| share(&decided.share)).sum::<u32>()
            };
            let (ffn, mha) = (sum(|share| share.ffn), sum(|share| share.mha));
            println!("{} clocks, m {ffn}, n {mha}", outcome.clocks);
            if offloading == Offloading::None {
                assert_eq!((ffn, mha), (0, 0));
            } else if moves_ffn {
                assert!(ffn > 0);
            } else {
                assert!(mha > 0);
            }
        }
        assert!(clocks[1] < clocks[0], "{clocks:?}");
    }
}
