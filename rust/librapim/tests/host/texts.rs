//! Are texts the same on every device, and do the memory's protocol and the machine's accounts hold?

use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_librapim::host::{Arrangement, Machine, Outcome, Pins, Prompt, boxed, run_arranged};
use ndp_librapim::offloading::{Device, Hardware, Pim};
use ndp_model::Model;
use ndp_testkit::first;
use std::path::Path;

fn model() -> Model {
    Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/model")).unwrap()
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
) -> ndp_files::Result<(Outcome, Machine)> {
    let channels = boxed(PseudoChannel::all(config)?);
    let hardware = Hardware::from(Pim { channels: config.channels(), ..Pim::default() });
    run_arranged(
        model,
        config,
        &hardware,
        Arrangement { groups, ..Arrangement::default() },
        prompts,
        channels,
    )
}

/// Own pace of bank groups, single-bank refreshes, shared command buses, one command at a time.
#[test]
fn texts_do_not_depend_on_the_memory() {
    let model = model();
    let prompts = prompts(&[3, 2, 3]);
    let [hbm2, banks, pseudo] =
        ["hbm2-small", "hbm2-refpb", "hbm2-pseudo"].map(|name| HbmConfig::preset(name).unwrap());
    let aim = "name = \"aim-small\"\n[device]\nchannels = 2\nrow_bits = 9\nsubarray_rows = 32\nweight_subarrays = 8\n\
               slicing = false\ncommand_set = \"aim\"";
    let aim = HbmConfig::from_toml(aim).unwrap();
    let slow = aim.clone().with_t_cmd(5).unwrap();
    let joined = |config: &HbmConfig| (config.clone().unsliced(), 1);
    let others = [joined(&hbm2), joined(&banks), joined(&pseudo), (hbm2, 2), (slow, 1)];
    let memories: Vec<_> = [(banks, 2), (pseudo, 2), (aim, 1)].into_iter().chain(others).collect();
    for (config, groups) in first(3, &memories) {
        let (outcome, machine) = run(&model, config, *groups, &prompts).unwrap();
        crate::host::common::assert_texts(&model, &prompts, &outcome);
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0, "{}", config.name());
        println!("{} {groups}: {} clocks", config.name(), outcome.clocks);
    }
}

#[test]
fn texts_do_not_depend_on_the_mode_and_overlap_saves_time() {
    let model = model();
    let config = HbmConfig::preset("librapim-small").unwrap();
    let prompts = prompts(&[5, 3, 4, 6]);
    let mut clocks = Vec::new();
    for (config, groups) in [(config.clone().unsliced(), 1), (config.clone().unsliced(), 2), (config, 2)] {
        let (outcome, machine) = run(&model, &config, groups, &prompts).unwrap();
        crate::host::common::assert_texts(&model, &prompts, &outcome);
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
