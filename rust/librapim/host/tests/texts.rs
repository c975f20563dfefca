//! Are texts the same whoever computes what, and do the memory's protocol and the machine's accounts hold?

use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate_tokens};
use ndp_offloading::{Device, Hardware, Pim};
use ndp_pim::{Machine, Outcome, PimError, Pins, Prompt, run_batch};
use std::path::Path;

fn model() -> Model {
    Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../golden/model")).unwrap()
}

fn prompts(tokens: &[usize]) -> Vec<Prompt> {
    let texts = ["It was a", "She had never", "Mr. Darcy", "The morning was so fine that"];
    let prompt = |(number, &generate): (usize, &usize)| Prompt {
        tokens: texts[number % 4].bytes().map(u32::from).collect(),
        generate,
        temperature_percent: 60,
        seed: number as u64,
    };
    tokens.iter().enumerate().map(prompt).collect()
}

fn run(
    model: &Model,
    config: &HbmConfig,
    groups: usize,
    prompts: &[Prompt],
) -> Result<(Outcome, Machine<PseudoChannel>), PimError> {
    let channels = (0..config.channels()).map(|_| PseudoChannel::new(config)).collect::<Result<_, _>>()?;
    let hardware = Hardware::from(Pim { channels: config.channels(), ..Pim::default() });
    run_batch(model, config, &hardware, groups, prompts, channels)
}

#[test]
fn texts_do_not_depend_on_the_mode_and_overlap_saves_time() {
    let model = model();
    let config = HbmConfig::preset("librapim-small").unwrap();
    let prompts = prompts(&[5, 3, 4, 6]);
    let mut clocks = Vec::new();
    for (config, groups) in [(config.clone().unsliced(), 1), (config.clone().unsliced(), 2), (config, 2)] {
        let (outcome, machine) = run(&model, &config, groups, &prompts).unwrap();
        for (prompt, text) in prompts.iter().zip(&outcome.texts) {
            let options = GenerateOptions {
                tokens: prompt.generate,
                temperature_percent: prompt.temperature_percent,
                seed: prompt.seed,
            };
            let alone =
                generate_tokens(&model, &mut SoftwareBackend::new(), &prompt.tokens, &options, |_| {})
                    .unwrap();
            assert_eq!((&text.tokens, &text.logits_digests), (&alone.tokens, &alone.logits_digests));
        }
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
        let busy = |device| -> u64 {
            outcome.events.iter().filter(|e| e.device == device).map(|e| e.end - e.start).sum()
        };
        println!(
            "{} {groups}: {} clocks, NPU {}, PIM {}; {:?}",
            config.name(),
            outcome.clocks,
            busy(Device::Npu),
            busy(Device::Pim),
            machine.channels().next().unwrap().statistics().bus
        );
        clocks.push(outcome.clocks);
    }
}
