//! Do timelines keep all dependencies, and do they hold all the work?

use ndp_config::{HbmConfig, LlmShape};
use ndp_files::said;
use ndp_librapim::host::measure::MeasuredMemory;
use ndp_librapim::offloading::evaluate::{BATCHES, SEQUENCES};
use ndp_librapim::offloading::{
    AnalyticTimes, Batch, Decision, Device, DeviceTimes, Event, Hardware, KvMapping, Layout, MeasuredTimes,
    Mechanism, Mode, Model, Picos, Pim, Planner, Request, Rule, Step, TableFile, Usage, Work,
};
use ndp_numerics::SplitMix64;

fn model(name: &str, layers: u32) -> Model {
    Model::of(&LlmShape::preset(name).unwrap()).with_layers(layers).unwrap()
}

struct System {
    model: Model,
    hardware: Hardware,
    plain: AnalyticTimes,
    sliced: AnalyticTimes,
}

impl System {
    fn new(model: Model, hardware: Hardware) -> Self {
        let plain = AnalyticTimes::new(&model, &hardware, false);
        let sliced = AnalyticTimes::new(&model, &hardware, true);
        Self { model, hardware, plain, sliced }
    }

    fn planner(&self) -> Planner<'_> {
        Planner::new(&self.model, &self.hardware, &self.plain, &self.sliced)
    }
}

fn wrong(step: &Step, model: &Model, contexts: &[u32]) -> Option<String> {
    let events = &step.timeline.events;
    for device in [Device::Npu, Device::Pim] {
        let mut free = Picos::ZERO;
        for event in events.iter().filter(|event| event.device == device) {
            if event.start < free || event.end <= event.start {
                return Some(format!("overlap at {event:?}"));
            }
            free = event.end;
        }
        if free > step.timeline.span {
            return Some(format!("{device:?} works until {free:?}, behind the end"));
        }
    }
    // Order within a group (all if attention is of both): Q, K, V, attention, projection, FFN, next layer or head.
    let chain = |event: &Event| match event.work {
        Work::Qkv => 4 * event.layer,
        Work::Mha => 4 * event.layer + 1,
        Work::Projection => 4 * event.layer + 2,
        Work::Ffn => 4 * event.layer + 3,
        Work::Head => 4 * event.layer + 4,
    };
    let merged = step.layout != Layout::TwoGroups;
    for (index, first) in events.iter().enumerate() {
        for second in &events[index + 1..] {
            // In a whole group, matrices of the two are independent.
            let related = first.group == second.group
                || (merged && (first.work == Work::Mha || second.work == Work::Mha));
            let (before, after) =
                if chain(first) < chain(second) { (first, second) } else { (second, first) };
            // In AttAcc attention of a head begins with its Q, K and V; other heads follow.
            let by_heads = step.mode == Mode::AttAcc
                && before.layer == after.layer
                && [before.work, after.work].iter().all(|work| *work != Work::Ffn && *work != Work::Head);
            let waits = if by_heads {
                before.start < after.start && before.end < after.end
            } else {
                before.end <= after.start
            };
            if related && chain(first) != chain(second) && !waits {
                return Some(format!("{after:?} does not wait for {before:?}"));
            }
        }
    }
    let weights = model.weight_bytes() / 2 + model.head().weights();
    let of_layer = |layer| {
        let seen = contexts.iter().map(move |&context| model.seen(layer, context));
        seen.map(|context| model.attention_macs(context)).sum::<u64>()
    };
    let expected = contexts.len() as u64 * weights + (0..model.layers).map(of_layer).sum::<u64>();
    let found = step.npu_macs + step.pim_macs;
    (found != expected).then(|| format!("{found} MACs, not {expected}"))
}

fn ragged(rng: &mut SplitMix64, requests: u64, longest: u64) -> Batch {
    let requests: Vec<_> = (0..requests)
        .map(|_| Request {
            context: 1 + (rng.next_u64() % longest) as u32,
            remaining: 1 + (rng.next_u64() % 4) as u32,
        })
        .collect();
    Batch::new(&requests).unwrap()
}

#[test]
fn all_work_is_done_once_and_in_order() {
    let mut rng = SplitMix64::new(3);
    let mut layouts = Vec::new();
    let (mut ffn, mut mha) = (0, 0);
    for t_ccd_l in [2, 16] {
        for name in ["gpt3-175b", "llama3-70b", "gemma-2-9b"] {
            let hardware = Hardware::from(Pim { t_ccd_l, ..Pim::default() });
            let system = System::new(model(name, 3), hardware);
            for requests in [1, 2, 3, 31, 64, 127, 128, 129, 300, 384] {
                for longest in [1, 50, 6000] {
                    let batch = ragged(&mut rng, requests, longest);
                    let rules = [Rule::Shortest, Rule::Paper];
                    for (mode, rule) in Mode::ALL.iter().flat_map(|mode| rules.map(|rule| (*mode, rule))) {
                        let step = system.planner().with_rule(rule).step(&batch, mode).unwrap();
                        let found = wrong(&step, &system.model, &batch.contexts());
                        assert_eq!(found, None, "seed 3: {name} {requests} {longest} {mode:?} {rule:?}");
                        if mode == Mode::DexDbo {
                            layouts.push(step.layout);
                        }
                        match step.choice.map(|choice| choice.decision) {
                            Some(Decision::Ffn(_)) => ffn += 1,
                            Some(Decision::Mha(_)) => mha += 1,
                            _ => (),
                        }
                    }
                }
            }
        }
    }
    assert!(ffn >= 10 && mha >= 10, "{ffn} {mha}");
    assert!(layouts.contains(&Layout::OneGroup) && layouts.contains(&Layout::TwoGroups));
}

#[test]
fn an_injected_error_in_a_timeline_is_found() {
    let system = System::new(model("gpt3-175b", 2), Hardware::default());
    let batch = Batch::uniform(384, 2048).unwrap();
    let step = system.planner().step(&batch, Mode::DexDbo).unwrap();
    let contexts = batch.contexts();
    assert_eq!(wrong(&step, &system.model, &contexts), None);
    let injected = |change: &dyn Fn(&mut Step)| {
        let mut step = step.clone();
        change(&mut step);
        wrong(&step, &system.model, &contexts).unwrap()
    };
    assert!(injected(&|step| step.npu_macs += 1).contains("MACs"));
    assert!(injected(&|step| step.timeline.span.0 -= 1).contains("behind the end"));
    let share =
        step.timeline.events.iter().position(|e| (e.device, e.work) == (Device::Pim, Work::Ffn)).unwrap();
    assert!(injected(&|step| step.timeline.events[share].end.0 += 1).contains("overlap"));
    // Project, then the offloaded FFN, then Q, K, V.
    assert!(
        injected(&|step| {
            let events = &mut step.timeline.events;
            events[share].start.0 -= 1;
            events[share - 1].end.0 -= 1;
            let before = events[..share].iter_mut().rev().find(|e| e.device == Device::Pim);
            if let Some(before) = before {
                before.end.0 -= 1;
            }
        })
        .contains("does not wait")
    );
}

#[test]
fn slots_take_what_their_mode_says() {
    let system = System::new(model("gpt3-175b", 2), Hardware::default());
    let (half, context) = (100, 3000);
    let batch = Batch::uniform(2 * half, context).unwrap();
    let span = |mode| system.planner().step(&batch, mode).unwrap().timeline.span;
    let stages = |times: &AnalyticTimes, b| {
        let [qkv, projection, ffn, head] = [
            times.npu(Work::Qkv, b, 1),
            times.npu(Work::Projection, b, 1),
            times.npu(Work::Ffn, b, 1),
            times.npu(Work::Head, b, 1),
        ];
        let sum = |parts: &[ndp_librapim::offloading::npu::NpuTime]| {
            let read = parts.iter().map(|part| part.read).sum::<Picos>();
            (parts.iter().map(|part| part.total()).sum::<Picos>(), read)
        };
        [sum(&[qkv]), sum(&[projection, ffn, qkv]), sum(&[projection, ffn, head])]
    };
    let [first, middle, last] = stages(&system.plain, 2 * half);
    let mha = system.plain.mha_pim(2 * half, context);
    assert_eq!(span(Mode::Serial), first.0 + mha + middle.0 + mha + last.0);
    let [first, middle, last] = stages(&system.plain, half);
    let mha = system.plain.mha_pim(half, context);
    let slot = |(npu, read): (Picos, Picos)| npu.max(read + mha);
    assert_eq!(
        span(Mode::Pipelined),
        first.0 + slot(first) + slot(middle) + slot(middle) + slot(last) + last.0
    );
    let [first, middle, last] = stages(&system.sliced, half);
    let mha = system.sliced.mha_pim(half, context);
    let slot = |(npu, _): (Picos, Picos)| npu.max(mha);
    assert_eq!(span(Mode::Dex), first.0 + slot(first) + slot(middle) + slot(middle) + slot(last) + last.0);
}

#[test]
fn offloading_never_makes_a_step_longer_over_the_grid() {
    let mut shorter = 0;
    for name in ["gpt3-175b", "llama3-70b"] {
        for t_ccd_l in [2, 16] {
            // With the normal tCCD, so that modes only differ by overlap.
            let hardware = Hardware::from(Pim {
                t_ccd_l,
                usage: Usage { slicing_permille: 0, ..Usage::default() },
                ..Pim::default()
            });
            let system = System::new(model(name, 4), hardware);
            for batch in BATCHES {
                for sequence in SEQUENCES {
                    let requests = Batch::uniform(batch, sequence).unwrap();
                    let step = |mode| system.planner().step(&requests, mode).unwrap();
                    let spans = Mode::ALL.map(|mode| step(mode).timeline.span);
                    let [serial, _, pipelined, neupims, dex, dbo, shortest] = spans;
                    assert!(dex <= pipelined && neupims <= pipelined, "{name} {batch} {sequence}");
                    let paper = system.planner().with_rule(Rule::Paper);
                    let paper = paper.step(&requests, Mode::DexDbo).unwrap().timeline.span;
                    if batch >= 128 {
                        assert!(paper <= dex, "{name} {batch} {sequence}: {paper:?} {dex:?}");
                        shorter += u32::from(paper < dex);
                    }
                    assert!(shortest <= serial.min(dex).min(paper), "{name} {batch} {sequence}");
                    assert!(dbo <= serial.min(pipelined), "{name} {batch} {sequence}");
                }
            }
        }
    }
    assert!(shorter > 50, "{shorter}");
}

/// "The same memory": serial has the times of the sliced banks too, and a stream of commands for each channel.
#[test]
fn librapim_is_never_slower_than_serial_on_the_same_memory() {
    let hardware = Hardware::default();
    let (mut layouts, mut rng) = (Vec::new(), SplitMix64::new(6));
    for name in ["gpt3-175b", "llama3-70b"] {
        let model = Model::of(&LlmShape::preset(name).unwrap());
        let formula = AnalyticTimes::new(&model, &hardware, true);
        let memory = HbmConfig::default();
        let measured = MeasuredMemory::new(&model, &hardware, &memory, &SEQUENCES, |_| ()).unwrap();
        let measured = measured.with_slicing(true);
        for (times, sliced) in [("formula", &formula as &dyn DeviceTimes), ("measured", &measured)] {
            let planner = || Planner::new(&model, &hardware, sliced, sliced);
            let span = |planner: Planner<'_>, batch: &Batch, mode| {
                let step = planner.step(batch, mode).unwrap();
                (step.timeline.span, step.layout)
            };
            for (batch, sequence) in BATCHES.into_iter().flat_map(|batch| SEQUENCES.map(|of| (batch, of))) {
                for requests in [
                    Batch::uniform(batch, sequence).unwrap(),
                    ragged(&mut rng, batch.into(), sequence.into()),
                ] {
                    let what = format!("{name}, {times}, {batch} requests of {sequence} tokens");
                    let (serial, _) = span(planner(), &requests, Mode::Serial);
                    let (all, layout) = span(planner(), &requests, Mode::DexDbo);
                    assert!(all <= serial, "{what}: {all:?} {serial:?}");
                    layouts.push(layout);
                    for without in [Mechanism::Groups, Mechanism::Ffn, Mechanism::Attention] {
                        let (less, _) = span(planner().without(&[without]), &requests, Mode::DexDbo);
                        assert!(all <= less && less <= serial, "{what} without {without:?}");
                    }
                }
            }
        }
    }
    assert!(layouts.contains(&Layout::OneGroup) && layouts.contains(&Layout::TwoGroups));
}

#[test]
fn the_predicted_sides_of_a_slot_are_the_timelines() {
    // A long stretch of middle slots: two more per layer.
    for (t_ccd_l, sequence) in [(2, 512), (2, 4096), (4, 2048), (16, 4096)] {
        let hardware = Hardware::from(Pim { t_ccd_l, ..Pim::default() });
        let span = |layers| {
            let system = System::new(model("gpt3-175b", layers), hardware);
            let step = system.planner().step(&Batch::uniform(384, sequence).unwrap(), Mode::DexDbo).unwrap();
            (step.timeline.span, step.choice.unwrap())
        };
        let ((four, choice), (five, _)) = (span(4), span(5));
        assert_ne!(choice.decision, Decision::None);
        assert_eq!(five - four, choice.longer() * 2, "{t_ccd_l} {sequence}");
    }
}

#[test]
fn a_run_lasts_until_the_last_request_is_finished_and_gets_shorter_on_the_way() {
    let system = System::new(model("llama3-70b", 2), Hardware::default());
    let requests: Vec<_> =
        (0..200).map(|index| Request { context: 100 + 7 * index, remaining: 1 + index % 10 }).collect();
    let batch = Batch::new(&requests).unwrap();
    for mode in Mode::ALL {
        let steps = system.planner().run(&batch, mode).unwrap();
        assert_eq!(steps.len(), 10);
        let mut left = batch.clone();
        for (token, step) in steps.iter().enumerate() {
            assert_eq!(left.requests().len(), 200 - 20 * token);
            assert_eq!(wrong(step, &system.model, &left.contexts()), None);
            left = left.advanced().unwrap_or(left);
        }
        assert!(steps[9].timeline.span < steps[0].timeline.span, "{mode:?}");
    }
}

#[test]
fn different_lengths_take_no_longer_than_the_longest_for_all() {
    let mut rng = SplitMix64::new(5);
    for kv_mapping in [KvMapping::Heads, KvMapping::Requests] {
        let hardware =
            Hardware::from(Pim { usage: Usage { kv_mapping, ..Usage::default() }, ..Pim::default() });
        let times = AnalyticTimes::new(&model("llama3-70b", 1), &hardware, true);
        for _ in 0..200 {
            let requests = 1 + rng.next_u64() % 200;
            let contexts = ragged(&mut rng, requests, 3000).contexts();
            let (requests, longest) = (contexts.len() as u32, contexts[0]);
            assert!(times.mha_pim_ragged(&contexts) <= times.mha_pim(requests, longest));
            assert!(
                times.mha_npu_ragged(&contexts).total() <= times.npu(Work::Mha, requests, longest).total()
            );
        }
    }
}

#[test]
fn a_table_is_asked_for_what_it_has_only() {
    let system = System::new(model("gpt3-175b", 2), Hardware::default());
    let requests: Vec<u32> = (1..=192).collect();
    let table = MeasuredTimes::new(TableFile::sample(&system.sliced, &requests, &[512, 1024])).unwrap();
    let planner = Planner::new(&system.model, &system.hardware, &system.plain, &table);
    let step = |batch, context| planner.step(&Batch::uniform(batch, context).unwrap(), Mode::DexDbo);
    // All these points were sampled, so nothing is interpolated.
    let computed = system.planner().step(&Batch::uniform(192, 1024).unwrap(), Mode::DexDbo).unwrap();
    assert_eq!(step(192, 1024).unwrap(), computed);
    let beyond = |what, value, max| format!("{what} = {value} is beyond the table, which ends at {max}");
    assert_eq!(said(&step(193, 1024)), beyond("requests", 193, 192));
    assert_eq!(said(&step(192, 1025)), beyond("context", 1025, 1024));
}

#[test]
fn a_step_that_takes_too_long_to_count_is_refused() {
    let hardware = Hardware::from(Pim {
        channels: 1,
        banks: 1,
        row_bytes: 32,
        t_faw: 1000,
        t_rp: 1000,
        clock_ps: 1_000_000,
        ..Pim::default()
    });
    hardware.validate().unwrap();
    let system = System::new(model("gpt3-175b", 96), hardware);
    for mode in Mode::ALL {
        let error = system.planner().step(&Batch::uniform(60_000, 1 << 19).unwrap(), mode).unwrap_err();
        assert!(error.to_string().starts_with("picoseconds of a step = 18446744073709551615"), "{error}");
    }
}
