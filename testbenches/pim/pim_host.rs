//! Texts with attention and FFNs in Verilated banks: do they match the software, without and with slicing and
//! offloading, and is an error found?
//!
//! Channels in RTL, every clock compared with the device model, with the host of `rust/librapim/src/host`; the same
//! with the controller in RTL between them. More prompts and modes run on the device model only, in
//! `rust/librapim/tests/host`.

use common::rtl::hbm_design;
use common::{Outcome, some};
use ndp_config::HbmConfig;
use ndp_dram::hbm::{HbmActivity, HbmOutputs, HbmStatistics, PseudoChannel};
use ndp_librapim::host::machine::Done;
use ndp_librapim::host::memory::CacheShape;
use ndp_librapim::host::shared::Product;
use ndp_librapim::host::{
    Arrangement, Channel, Commands, Machine, Offloading, Pins, Prompt, Sizes, boxed, groups_of, run_arranged,
    sizes_of,
};
use ndp_librapim::offloading::{Hardware, Mode, Pim, Rule};
use ndp_model::Model;
use ndp_numerics::{SplitMix64, dot, f16};
use ndp_sim::ffi::{OpenOptions, Rtl, rtl};
use ndp_sim::hbm::{Controlled, ControlledWaves, Hosted, Lockstep, PimChannel};
use ndp_systems::serving::{Chunk, Iteration, Request, Rules, TextSteps, TimingOnlySteps, serve, texts};
use std::error::Error;
use std::path::Path;

#[path = "../../rust/librapim/tests/host/common/mod.rs"]
mod host_texts;

use host_texts::{assert_texts, random_llama, random_model};

fn prompts() -> Vec<Prompt> {
    let prompt = |(text, generate): (&str, usize)| Prompt {
        tokens: text.bytes().map(u32::from).collect(),
        generate,
        temperature_percent: 50,
        seed: 3,
    };
    [("Mr. D", 2), ("I", 1)].map(prompt).to_vec()
}

type Opened = Result<Vec<Channel>, Box<dyn Error>>;

fn opened<P: Pins + 'static>(config: &HbmConfig, open: impl Fn() -> Result<P, Box<dyn Error>>) -> Opened {
    Ok(boxed((0..config.channels()).map(|_| open()).collect::<Result<Vec<_>, _>>()?))
}

/// Channels of `built` in RTL with device models of `model`.
fn channels(built: &HbmConfig, model: &HbmConfig) -> Opened {
    let channel = rtl(built, PimChannel::BLOCK)?;
    opened(built, || Ok(Lockstep::of_rtl(&channel, model, &OpenOptions::default())?))
}

fn hosted(config: &HbmConfig) -> Opened {
    opened(config, || Ok(Hosted::open(config, true, ControlledWaves::default())?))
}

/// Device models of channels with this controller in RTL.
fn behind(controller: &Rtl, config: &HbmConfig) -> Opened {
    opened(config, || Ok(Hosted::of_rtl(controller, config)?))
}

#[test]
fn texts_from_verilated_banks_are_those_of_the_software() -> Outcome {
    let sliced = HbmConfig::preset("librapim-small")?;
    for config in [sliced.clone(), sliced.unsliced()] {
        texts_agree(&config, channels(&config, &config)?)?;
    }
    Ok(())
}

/// The prompts' texts on these channels and, one by one, in software.
fn texts_agree(config: &HbmConfig, channels: Vec<Channel>) -> Outcome {
    let model = Model::load(Path::new("golden/model"))?;
    let prompts = prompts();
    let hardware = Hardware::from(Pim { channels: config.channels(), ..Pim::default() });
    let (outcome, machine) = run_arranged(
        &model,
        config,
        &hardware,
        Arrangement { groups: 2, ..Arrangement::default() },
        &prompts,
        channels,
    )?;
    assert_texts(&model, &prompts, &outcome);
    assert!(outcome.checked.attention > 0 && outcome.columns_checked > 0);
    assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
    Ok(())
}

#[test]
fn texts_by_the_controller_in_rtl_are_those_of_the_software() -> Outcome {
    let [sliced, banks] = ["librapim-small", "hbm2-refpb"].map(HbmConfig::preset);
    let (sliced, banks) = (sliced?, banks?);
    for config in some(&[banks.clone(), sliced.clone(), sliced.unsliced(), banks.unsliced()]) {
        texts_agree(config, hosted(config)?)?;
    }
    Ok(())
}

#[test]
fn a_channel_that_is_slower_than_its_controller_knows_is_caught() -> Outcome {
    let config = HbmConfig::preset("librapim-small")?;
    let controller = rtl(&config, Controlled::BLOCK)?;
    for (time, rule) in [("t_rcd = 15", "tRCD"), ("t_wr = 17", "tWR"), ("t_mac = 17", "tMAC")] {
        let text = format!(
            "name = \"slower\"\n[device]\nchannels = 2\nrow_bits = 9\nsubarray_rows = 32\nweight_subarrays = 8\n[timing]\n{time}\n"
        );
        let slower = HbmConfig::from_toml(&text)?;
        match texts_agree(&config, behind(&controller, &slower)?) {
            Err(error) if reasons(&*error).contains(rule) => {}
            other => return Err(format!("{time}: {other:?}").into()),
        }
    }
    Ok(())
}

#[test]
fn a_memory_of_another_kind_than_its_model_is_caught() -> Outcome {
    let model = Model::load(Path::new("golden/model"))?;
    let config = HbmConfig::preset("librapim-small")?;
    let hardware = Hardware::from(Pim { channels: config.channels(), ..Pim::default() });
    // The banks of one cannot be cut.
    let channels = channels(&config.clone().unsliced(), &config)?;
    match run_arranged(
        &model,
        &config,
        &hardware,
        Arrangement { groups: 2, ..Arrangement::default() },
        &prompts(),
        channels,
    ) {
        Err(error) if format!("{error:#}").contains("status") => Ok(()),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("it was not found".into()),
    }
}

fn offloaded(
    model: &Model,
    config: &HbmConfig,
    hardware: &Hardware,
    offloading: Offloading,
    prompts: &[Prompt],
    channels: Vec<Channel>,
) -> Result<(ndp_librapim::host::Outcome, Machine), Box<dyn Error>> {
    let hardware = Hardware { pim: Pim { channels: config.channels(), ..hardware.pim }, ..*hardware };
    let arrangement = Arrangement { groups: 2, offloading, record: 0..0 };
    Ok(run_arranged(model, config, &hardware, arrangement, prompts, channels)?)
}

fn short_prompts(lengths: &[(usize, usize)]) -> Vec<Prompt> {
    host_texts::prompts(lengths, 64)
}

/// A grid of small models on channels in RTL; serial has the sliced banks too.
#[test]
fn the_shortest_plan_is_never_slower_than_serial_in_rtl() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    let small = Hardware::preset("librapim-small-npu")?;
    let lengths: [&[(usize, usize)]; 3] = [&[(3, 4), (5, 2), (2, 3)], &[(12, 3)], &[(1, 2), (2, 2), (1, 3)]];
    let (mut runs, mut groups) = (0, [0; 2]);
    for ((hidden, heads, ffn), hardware) in [(32, 2, 536), (32, 2, 64), (32, 1, 16)]
        .into_iter()
        .flat_map(|model| [small, Hardware::default()].map(|hardware| (model, hardware)))
    {
        let model = random_model(hidden, heads, ffn);
        for lengths in lengths {
            let prompts = short_prompts(lengths);
            let run = |groups, offloading| -> Result<_, Box<dyn Error>> {
                let pim = Pim { channels: config.channels(), ..hardware.pim };
                let arrangement = Arrangement { groups, offloading, record: 0..0 };
                let hardware = Hardware { pim, ..hardware };
                let channels = channels(&config, &config)?;
                Ok(run_arranged(&model, &config, &hardware, arrangement, &prompts, channels)?.0)
            };
            let serial = run(1, Offloading::None)?;
            let shortest = run(2.min(prompts.len()), Offloading::Live(Rule::Shortest))?;
            assert_texts(&model, &prompts, &shortest);
            let [own, serials] = [shortest.clocks, serial.clocks];
            assert!(own <= serials, "{:?}, {lengths:?}: {own} of {serials} clocks", model.config);
            groups[shortest.groups - 1] += 1;
            runs += 1;
        }
    }
    assert!(runs == 18 && groups.iter().all(|&runs| runs > 0), "{groups:?}");
    Ok(())
}

#[test]
fn ffns_in_verilated_banks_and_attention_on_the_npu_give_the_same_texts() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    fixed_shares_agree(&config, || channels(&config, &config))
}

#[test]
fn ffns_by_the_controller_in_rtl_give_the_same_texts() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    fixed_shares_agree(&config, || hosted(&config))
}

fn fixed_shares_agree(config: &HbmConfig, channels: impl Fn() -> Opened) -> Outcome {
    // Inputs of two rows of DRAM: exact sums of each come together.
    let model = random_model(32, 2, 536);
    let prompts = short_prompts(&[(3, 4), (5, 2), (2, 3)]);
    for (ffn, mha) in [(2, 0), (1, 1), (0, 2)] {
        let offloading = Offloading::Fixed { ffn, mha };
        let (outcome, machine) =
            offloaded(&model, config, &Hardware::default(), offloading, &prompts, channels()?)?;
        assert_texts(&model, &prompts, &outcome);
        assert_eq!((outcome.checked.products > 0, outcome.copies_checked > 0), (ffn > 0, mha > 0));
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
        // The event log's commands of each channel are those that the channel has seen.
        for (channel, statistics) in machine.channels().map(Pins::statistics).enumerate() {
            let mut given = Commands::default();
            outcome
                .spans
                .iter()
                .filter(|span| span.channel == channel)
                .for_each(|span| given += span.commands);
            assert_eq!((given.share > 0, statistics.pim.mac), (ffn > 0, 2 * u64::from(given.mac)));
        }
    }
    Ok(())
}

/// A gate, rotary embedding and two heads of queries for each of keys and values, with and without slicing and
/// offloading; by the scheduler and by the controller in RTL.
#[test]
fn texts_with_gates_and_shared_keys_and_values_are_the_same_in_rtl() -> Outcome {
    let sliced = HbmConfig::preset("librapim-tiny")?;
    let model = random_llama(32, [4, 2, 16], 24);
    let prompts = short_prompts(&[(3, 2), (2, 3), (1, 2)]);
    let all = [
        (sliced.clone(), Offloading::Fixed { ffn: 1, mha: 1 }, false),
        (sliced.clone(), Offloading::Fixed { ffn: 1, mha: 1 }, true),
        (sliced.unsliced(), Offloading::None, false),
    ];
    for (config, offloading, is_hosted) in all {
        let channels = if is_hosted { hosted(&config)? } else { channels(&config, &config)? };
        let (outcome, machine) =
            offloaded(&model, &config, &Hardware::default(), offloading, &prompts, channels)?;
        assert_texts(&model, &prompts, &outcome);
        let moves = offloading != Offloading::None;
        assert_eq!((outcome.checked.products > 0, outcome.copies_checked > 0), (moves, moves));
        assert!(outcome.checked.attention > 0);
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
    }
    Ok(())
}

#[test]
fn the_scheduler_moves_both_in_rtl_and_its_decisions_are_recorded() -> Outcome {
    let config = HbmConfig::preset("librapim-small")?;
    decided_shares_agree(&config, || channels(&config, &config))
}

#[test]
fn the_scheduler_moves_both_with_the_controller_in_rtl() -> Outcome {
    let config = HbmConfig::preset("librapim-small")?;
    decided_shares_agree(&config, || hosted(&config))
}

fn decided_shares_agree(config: &HbmConfig, channels: impl Fn() -> Opened) -> Outcome {
    let slow = Hardware::preset("librapim-small-npu")?;
    let prompts = short_prompts(&[(2, 5), (3, 4), (1, 5), (2, 3), (2, 4), (1, 2)]);
    let (wide, attentive) = (random_model(64, 4, 256), random_model(64, 4, 32));
    for (model, hardware, moves_ffn) in [(&wide, &slow, true), (&attentive, &Hardware::default(), false)] {
        let live = Offloading::Live(Rule::Paper);
        let (outcome, _) = offloaded(model, config, hardware, live, &prompts, channels()?)?;
        assert_texts(model, &prompts, &outcome);
        let shares: Vec<_> = outcome.decisions.iter().map(|decided| decided.share).collect();
        // A step for each token but the first, in each group.
        assert_eq!(shares.len(), 4 + 3);
        assert!(shares.iter().all(|share| share.on_npu.is_some() && share.in_attention.is_some()));
        let moved = if moves_ffn { outcome.checked.products } else { outcome.copies_checked };
        let decided = shares.iter().any(|share| if moves_ffn { share.ffn > 0 } else { share.mha > 0 });
        assert!(decided && moved > 0, "{shares:?}");
    }
    Ok(())
}

#[test]
fn four_channels_in_rtl_share_the_work() -> Outcome {
    let two = HbmConfig::preset("librapim-small")?;
    let four = two.clone().with_channels(4)?;
    let model = random_model(64, 4, 96);
    let prompts = short_prompts(&[(3, 2), (2, 3), (4, 2), (1, 2)]);
    let mut columns = Vec::new();
    for config in [&two, &four] {
        let offloading = Offloading::Fixed { ffn: 1, mha: 1 };
        let channels = channels(config, config)?;
        let (outcome, machine) =
            offloaded(&model, config, &Hardware::default(), offloading, &prompts, channels)?;
        assert_texts(&model, &prompts, &outcome);
        let mut channels = vec![Commands::default(); config.channels() as usize];
        outcome.spans.iter().for_each(|span| channels[span.channel] += span.commands);
        for (channel, (commands, statistics)) in
            channels.iter().zip(machine.channels().map(Pins::statistics)).enumerate()
        {
            println!("channel {channel}: {commands:?}");
            // Rows of all matrices, and heads, divide by the channels: each has the same.
            assert_eq!((commands.share, commands.mac), (channels[0].share, channels[0].mac));
            assert!(commands.share > 0 && commands.read > 0 && commands.result > 0);
            assert_eq!(statistics.pim.mac, 2 * u64::from(commands.mac));
        }
        columns.push(outcome.columns_checked);
        assert_eq!(machine.channels().count(), config.channels() as usize);
    }
    assert_eq!(columns[0], columns[1]);
    Ok(())
}

/// Prompts and tokens of an iteration, and its nanoseconds.
type Asked = (Vec<Chunk>, Vec<Chunk>, u64);

/// Requests that come and go, a prompt that is cut, one that waits for room: work and time of each iteration with these
/// channels. Without `is_text` only their lengths are known.
fn iterations(
    mode: Mode,
    hardware: &str,
    is_text: bool,
    channels: impl Fn(&HbmConfig) -> Opened,
) -> Result<Vec<Asked>, Box<dyn Error>> {
    let sliced = HbmConfig::preset("librapim-small")?;
    let config = if mode.sliced() { sliced } else { sliced.unsliced() };
    let model = Model::load(Path::new("golden/model"))?;
    let hardware = Hardware::preset(hardware)?.on(&config);
    let request = |arrival_ns, input, output| Request { arrival_ns, input, output };
    let requests = [request(0, 2, 3), request(0, 3, 2), request(120_000, 2, 2)];
    let prompts = texts::prompts(&requests, 60, 1);
    // Room for eight tokens: the third request waits for it.
    let rules = Rules { max_batch: 3, block_tokens: 1, max_prefill: 64, prefill_chunk: Some(3) };
    let bytes = 8 * sizes_of(&model).kv_bytes(1) * model.layers.len() as u64;
    let offloading = if mode.offloads() { Offloading::Live(Rule::Shortest) } else { Offloading::None };
    let arrangement = Arrangement { groups: groups_of(mode)?, offloading, record: 0..0 };
    let channels = (channels(&config)?, Some(bytes));
    let mut all = Vec::new();
    let mut keep = |one: &Iteration<'_>| {
        all.push((one.prefilled.to_vec(), one.decoded.to_vec(), one.end_ns - one.start_ns));
    };
    if !is_text {
        let (sizes, extents) = (Sizes::new(&sizes_of(&model)), texts::extents(&requests));
        let (devices, extents) = ((&config, &hardware), (&extents[..], false));
        let mut machine = TimingOnlySteps::new(&sizes, devices, &arrangement, extents, channels)?;
        serve(&requests, &rules, &mut machine, &mut keep)?;
        return Ok(all);
    }
    let mut machine = TextSteps::new(&model, &config, &hardware, &arrangement, &prompts, channels)?;
    let outcome = serve(&requests, &rules, &mut machine, &mut keep)?;
    assert!(all.iter().any(|(prompts, ..)| prompts.iter().any(|chunk| !chunk.yields)));
    println!(
        "{} {:?}, {} gave way",
        mode.name(),
        all.iter().map(|one| one.2).collect::<Vec<_>>(),
        outcome.preemptions
    );
    for (prompt, text) in prompts.iter().zip(machine.session().texts()) {
        host_texts::assert_text(&model, prompt, text);
    }
    assert_eq!(machine.session().machine().channels().map(Pins::violations).sum::<u64>(), 0);
    Ok(all)
}

#[test]
fn served_requests_take_in_rtl_the_clocks_of_requests_without_data() -> Outcome {
    let models = |config: &HbmConfig| -> Opened { Ok(boxed(PseudoChannel::all(config)?)) };
    for &(mode, hardware) in
        some(&[(Mode::DexDbo, "librapim-small-npu"), (Mode::Serial, "librapim"), (Mode::Dex, "librapim")])
    {
        let rtl = iterations(mode, hardware, true, |config| channels(config, config))?;
        // Those of texts on device models are the same (`rust/systems/tests/serving/texts.rs`).
        assert_eq!(rtl, iterations(mode, hardware, false, models)?, "{}", mode.name());
    }
    Ok(())
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn with_the_controller_in_rtl_they_take_the_same_clocks_in_front_of_either_channel() -> Outcome {
    let open = |rtl| {
        move |config: &HbmConfig| {
            opened(config, || Ok(Hosted::open(config, rtl, ControlledWaves::default())?))
        }
    };
    let (mode, hardware) = (Mode::Dex, "librapim");
    let [rtl, model] = [true, false].map(|rtl| iterations(mode, hardware, true, open(rtl)));
    assert_eq!(rtl?, model?);
    Ok(())
}

/// Any bits, also NaN and infinities, multiplied by both devices; inputs of one and two rows of DRAM.
#[test]
fn products_of_any_numbers_in_verilated_banks_are_exact() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    products_are_exact(&config, || channels(&config, &config))
}

#[test]
fn products_of_any_numbers_by_the_controller_in_rtl_are_exact() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    products_are_exact(&config, || hosted(&config))
}

fn products_are_exact(config: &HbmConfig, channels: impl Fn() -> Opened) -> Outcome {
    let hardware = Hardware::from(Pim { channels: config.channels(), ..Pim::default() });
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 16, positions: 16 };
    let mut rng = SplitMix64::new(17);
    for (rows, cols, vectors, special) in [(9, 70, 4, false), (6, 530, 3, false), (8, 40, 4, true)] {
        let mut any = |count: usize| -> Vec<f16> {
            let mut number = || {
                let bits = rng.next_u64() as u16;
                // Few numbers are special, or none: they hide the rest.
                let keep = if special { rng.next_u64().is_multiple_of(64) } else { bits & 0x7C00 != 0x7C00 };
                f16::from_bits(if keep { bits } else { bits & 0xBFFF })
            };
            (0..count).map(|_| number()).collect()
        };
        let weights = any(rows * cols);
        let inputs: Vec<Vec<f16>> = (0..vectors).map(|_| any(cols)).collect();
        let mut machine = Machine::new(config, &hardware, shape, cols, channels()?)?;
        machine.load("matrix", (rows, cols), &weights)?;
        let product = Product { label: "matrix".to_owned(), vectors: inputs.clone(), others: 0 };
        machine.start_shared(0, &product)?;
        let Some(Done::Shared(0, found)) = machine.run()? else { return Err("not done".into()) };
        assert_eq!(found.len(), vectors * rows);
        for (index, found) in found.into_iter().enumerate() {
            let (vector, row) = (index / rows, index % rows);
            let expected = dot(&weights[row * cols..][..cols], &inputs[vector]);
            assert_eq!(found.to_bits(), expected.to_bits(), "{rows} x {cols}, {vector}, {row}");
        }
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
    }
    Ok(())
}

/// RTL with one wrong answer: flips bit 62 of the data `latency` clocks after the first column command `opcode`.
struct Faulty {
    lockstep: Lockstep,
    opcode: u32,
    latency: u64,
    due: Option<u64>,
    clock: u64,
}

impl Pins for Faulty {
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> ndp_files::Result<HbmOutputs> {
        let mut out = Pins::clock(&mut self.lockstep, row, column, write)?;
        if column & 15 == self.opcode && self.due.is_none() {
            self.due = Some(self.clock + self.latency);
        }
        if let Some(words) = out.read.as_mut().filter(|_| self.due == Some(self.clock)) {
            words[0] ^= 1 << 62;
        }
        self.clock += 1;
        Ok(out)
    }

    fn violations(&self) -> u64 {
        self.lockstep.violations()
    }

    fn statistics(&self) -> HbmStatistics {
        self.lockstep.statistics()
    }

    fn activity(&self) -> HbmActivity {
        self.lockstep.activity()
    }
}

fn reasons(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", reasons(source)))
}

#[test]
fn errors_in_what_is_offloaded_are_caught() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    let model = random_model(32, 2, 536);
    let prompts = short_prompts(&[(2, 2), (1, 2)]);
    let run = |design: &str, ffn, opcode| {
        let faulty =
            |lockstep| Faulty { lockstep, opcode, latency: config.t_cl().into(), due: None, clock: 0 };
        let rtl = hbm_design(design, PimChannel::BLOCK, &crate::pim::pim_channel::MUTANTS);
        let rtl = rtl.map_err(|error| error.to_string())?;
        let open = |_| Lockstep::of_rtl(&rtl, &config, &OpenOptions::default()).map(faulty);
        let channels = (0..config.channels()).map(open).collect::<Result<Vec<_>, _>>();
        let offloading = Offloading::Fixed { ffn, mha: 1 };
        let channels = boxed(channels.map_err(|error| error.to_string())?);
        offloaded(&model, &config, &Hardware::default(), offloading, &prompts, channels)
            .map(drop)
            .map_err(|error| reasons(&*error))
    };
    run(config.name(), 1, u32::MAX)?;
    // One bit of the first RDG, and of the first SUM.
    let wrong = |opcode| run(config.name(), 1, opcode).err().unwrap_or_default();
    let (shared, summed) = (wrong(3), wrong(7));
    assert!(shared.starts_with("channel 0, bank 0, row ") && shared.contains("expected"), "{shared}");
    assert!(summed.contains("fc2") && summed.contains("expected"), "{summed}");
    // In the RTL: half of each column is lost on its way into the buffer.
    let lost = run("mutant-half", 1, u32::MAX).err().unwrap_or_default();
    assert!(lost.contains("the data bus is"), "{lost}");
    Ok(())
}

#[test]
fn a_controller_whose_macs_do_not_wait_for_shares_is_caught() -> Outcome {
    let config = HbmConfig::preset("librapim-tiny")?;
    let model = random_model(32, 2, 536);
    let prompts = short_prompts(&[(2, 2), (1, 2)]);
    let run = |design: &str| -> Result<(), Box<dyn Error>> {
        let controller = hbm_design(design, Controlled::BLOCK, &crate::pim::pim_controller::MUTANTS)?;
        let channels = behind(&controller, &config)?;
        let offloading = Offloading::Fixed { ffn: 1, mha: 1 };
        offloaded(&model, &config, &Hardware::default(), offloading, &prompts, channels).map(drop)
    };
    run(config.name())?;
    let text = run("mutant-there").err().map(|error| reasons(&*error)).unwrap_or_default();
    assert!(text.contains("the channel answers") && text.contains("MAC"), "{text}");
    Ok(())
}
