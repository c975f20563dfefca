//! Steps of LibraPIM and its baselines (sections 3 and 6), and the area of slicing.
//!
//! Uses `ndp_librapim::offloading`. All layers follow from steps of three and four, since inner layers take equally
//! long. Attention has a row of K and V per head of Q, as table 2 counts. LibraPIM follows algorithm 1
//! ([`Rule::Paper`]). As in the paper, nothing limits weights, keys and values to the memory.

use crate::assumption::{Assumptions, Key};
use ndp_config::{HbmConfig, LlmShape};
use ndp_energy::{Energy, HbmConstants, NpuConstants};
use ndp_files::{Result, refusal};
use ndp_librapim::host::measure::MeasuredMemory;
use ndp_librapim::offloading::algorithm::Decision;
use ndp_librapim::offloading::{
    AnalyticTimes, Baselines, Batch, Device, DeviceTimes, Dispatch, Hardware, Mode, Model, Npu, Pim, Planner,
    Rule, Step, StepCosts, Usage,
};

/// Hardware, and the times of work in memory if they are measured; `None` for the formulas.
type Times<'a> = (&'a Hardware, Option<&'a MeasuredMemory>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub ms: f64,
    /// MACs of the NPU over its arrays' peak.
    pub npu: f64,
    /// MACs of the banks over their peak.
    pub pim: f64,
    /// Share of the step with work for the NPU.
    pub npu_busy: f64,
    /// Share of the step with work for the banks.
    pub pim_busy: f64,
    /// Requests of a group with an offloaded FFN in a middle layer.
    pub ffn_moved: f64,
}

pub fn hardware(assumptions: &Assumptions) -> Hardware {
    let permille = |key: Key| (1000.0 * assumptions.get(key)).round() as u32;
    let plain = Hardware::default();
    let terabytes = plain.bus_bytes_per_second(false) / 1e12;
    let bus_permille = (1000.0 * assumptions.get(Key::PimBuses) / terabytes).round() as u32;
    let issue = assumptions.get(Key::PimIssue);
    let each = f64::from(plain.pim.channels);
    Hardware {
        npu: Npu {
            efficiency_permille: permille(Key::NpuCompute),
            load_rows: assumptions.get(Key::NpuLoad).round() as u32,
            ..plain.npu
        },
        pim: Pim { usage: Usage { bus_permille, ..plain.pim.usage }, ..plain.pim },
        baselines: Baselines {
            dispatch: if issue < each { Dispatch::Shared } else { Dispatch::Channel },
            commands_per_us: (1000.0 * issue).round() as u32,
            coprocessing_permille: permille(Key::AttAccFfn),
            overlap_permille: permille(Key::NeuPimsOverlap),
        },
    }
}

/// Planned steps of three and four layers; FFNs move if they save more than a part of the step.
fn steps(
    (hardware, measured): Times<'_>,
    mode: Mode,
    model: &Model,
    (batch, sequence): (u32, u32),
    least_gain: f64,
) -> Result<[Step; 2]> {
    let requests = Batch::uniform(batch, sequence)?;
    let step = |layers| -> Result<Step> {
        let model = model.clone().with_layers(layers)?;
        let [plain, sliced] = [false, true].map(|sliced| match measured {
            Some(times) => Box::new(times.clone().with_slicing(sliced)) as Box<dyn DeviceTimes>,
            None => Box::new(AnalyticTimes::new(&model, hardware, sliced)),
        });
        let planner = Planner::new(&model, hardware, &*plain, &*sliced).with_rule(Rule::Paper);
        let step = planner.step(&requests, mode)?;
        Ok(match step.choice.map(|choice| choice.decision) {
            Some(Decision::Ffn(_)) if least_gain > 0.0 => {
                let stays = planner.with_ffn(Some(0))?.step(&requests, mode)?;
                let spans = [&step, &stays].map(|step| step.timeline.span.0 as f64);
                if spans[0] > (1.0 - least_gain) * spans[1] { stays } else { step }
            }
            _ => step,
        })
    };
    Ok([step(3)?, step(4)?])
}

/// A step of `batch` requests with `sequence` tokens each; an error for an unknown model or an empty batch.
pub fn point(times: Times<'_>, mode: Mode, model: &str, batch: u32, sequence: u32) -> Result<Point> {
    let (hardware, model) = (times.0, self::model(model)?);
    let [three, four] = steps(times, mode, &model, (batch, sequence), 0.0)?;
    let more = f64::from(model.layers) - 3.0;
    let all = |of: &dyn Fn(&Step) -> f64| of(&three) + more * (of(&four) - of(&three));
    let busy = |device| all(&|step| step.timeline.busy(device).0 as f64);
    let ps = all(&|step| step.timeline.span.0 as f64);
    let seconds = ps / 1e12;
    let ffn_moved = match four.choice.map(|choice| choice.decision) {
        Some(Decision::Ffn(requests)) => f64::from(requests),
        _ => 0.0,
    };
    Ok(Point {
        ms: ps / 1e9,
        npu: all(&|step| step.npu_macs as f64) / (seconds * hardware.npu_macs_per_second()),
        pim: all(&|step| step.pim_macs as f64) / (seconds * hardware.pim_macs_per_second(mode.sliced())),
        npu_busy: busy(Device::Npu) / ps,
        pim_busy: busy(Device::Pim) / ps,
        ffn_moved,
    })
}

/// Energy of memory and NPU.
pub(super) fn step_energy(
    times: Times<'_>,
    mode: Mode,
    model: &str,
    requests: (u32, u32),
    least_gain: f64,
) -> Result<Energy> {
    let model = self::model(model)?;
    let (memory, npu) = (HbmConstants::preset("hbm2-8gb")?, NpuConstants::preset("npu-65tflops")?);
    let costs = StepCosts::new(&model, times.0, &memory, &npu);
    let [three, four] = steps(times, mode, &model, requests, least_gain)?.map(|step| costs.of(&step).total);
    let more = u128::from(model.layers) - 3;
    let all = |three: u128, four: u128| three + more * (four - three);
    Ok(Energy {
        low: all(three.low, four.low),
        value: all(three.value, four.value),
        high: all(three.high, four.high),
    })
}

fn model(name: &str) -> Result<Model> {
    Ok(Model::of(&LlmShape::preset(name)?))
}

/// Logic of a bank from `ndp synth` (ASAP7), module by module.
const SLICED: &str = include_str!("../../../../synth/reports/librapim-pim_bank-asap7_rvt_tt.md");
const PLAIN: &str = include_str!("../../../../synth/reports/newton-aim-pim_bank-asap7_rvt_tt.md");

/// Process of the paper's area (CACTI, section 6.1) and of the report, in nm. Logic scales with the square.
const NODES: [f64; 2] = [22.0, 7.0];
/// Squares of the process per DRAM cell: open bitline, as CACTI's commodity DRAM.
const CELL: f64 = 6.0;

/// Area of a module with its children in um2.
pub(super) fn um2(sliced: bool, module: &str) -> Result<f64> {
    let report = if sliced { SLICED } else { PLAIN };
    let row = report.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let of = row.into_iter().find(|cells| cells.get(1).is_some_and(|name| name.starts_with(module)));
    of.and_then(|cells| cells.get(9)?.parse().ok())
        .ok_or_else(|| refusal!("the synthesis report has no area of {module}"))
}

/// Per cent of a bank's cells at the paper's process.
pub(super) fn of_cells(um2: f64) -> f64 {
    let memory = HbmConfig::default();
    let bank_bits = (8 * memory.bytes() / u64::from(memory.channels() * memory.banks())) as f64;
    let [paper, report] = NODES;
    let cells_um2 = bank_bits * CELL * (paper / 1e3).powi(2);
    100.0 * um2 * (paper / report).powi(2) / cells_um2
}

#[cfg(test)]
mod tests {
    use super::super::{Designs, Paper, Study, row};
    use super::*;
    use ndp_librapim::offloading::evaluate::{BATCHES, SEQUENCES};

    /// Table 2.
    const MODELS: [&str; 2] = ["gpt3-175b", "llama3-70b"];

    type Value = Result<f64>;

    fn mean<T: Copy>(over: &[T], value: impl Fn(T) -> Value) -> Value {
        let sum: f64 = over.iter().map(|&one| value(one)).sum::<Result<f64, _>>()?;
        Ok(sum / over.len() as f64)
    }

    /// Mean speed-up of LibraPIM over models, batches and sequences of at least `shortest` tokens.
    fn mean_over(hardware: &Hardware, mode: Mode, shortest: u32) -> Value {
        let sequences: Vec<u32> = SEQUENCES.into_iter().filter(|&sequence| sequence >= shortest).collect();
        mean(&MODELS, |model| {
            mean(&BATCHES, |batch| {
                mean(&sequences, |sequence| {
                    let ms = |mode| {
                        Ok::<_, ndp_files::Error>(point((hardware, None), mode, model, batch, sequence)?.ms)
                    };
                    Ok(ms(mode)? / ms(Mode::DexDbo)?)
                })
            })
        })
    }

    /// Averages with assumptions of a set.
    #[derive(Clone, Debug, PartialEq)]
    struct Contribution {
        /// `None` in the first line: stated parameters only.
        key: Option<Key>,
        /// LibraPIM over NPU+AiM, AttAcc and NeuPIMs, with this assumption only.
        alone: [f64; 3],
        /// With this and all above.
        together: [f64; 3],
    }

    /// Section 6.1.
    const BASELINES: [Mode; 3] = [Mode::Serial, Mode::AttAcc, Mode::NeuPims];

    /// Effect of each assumption on the averages of section 6.2, in the order of the keys.
    fn contributions(set: &Assumptions, shortest: u32) -> Result<Vec<Contribution>> {
        let means = |set: &Assumptions| -> Result<[f64; 3]> {
            let hardware = hardware(set);
            let [aim, attacc, neupims] = BASELINES.map(|mode| mean_over(&hardware, mode, shortest));
            Ok([aim?, attacc?, neupims?])
        };
        let stated = Assumptions::preset("stated")?;
        let alone = means(&stated)?;
        let mut all = vec![Contribution { key: None, alone, together: alone }];
        let mut grown = stated.clone();
        for key in Key::ALL.into_iter().filter(|&key| set.names(key)) {
            let value = set.get(key);
            grown = grown.with(key, value);
            let (alone, together) = (means(&stated.with(key, value))?, means(&grown)?);
            all.push(Contribution { key: Some(key), alone, together });
        }
        Ok(all)
    }

    /// Model of Fig. 20 and 22.
    const LLAMA: &str = "llama3-70b";
    /// Model of Fig. 7 and of section 6.2's large batches.
    const GPT: &str = "gpt3-175b";

    fn at(study: &Study<'_>, mode: Mode, model: &str, batch: u32, sequence: u32) -> Result<Point> {
        point((&hardware(study.assumptions()), None), mode, model, batch, sequence)
    }

    /// The point of section 6.3.
    fn pinned(study: &Study<'_>, mode: Mode) -> Result<Point> {
        at(study, mode, LLAMA, 128, 4096)
    }

    /// Consequences of stated utilisations for any rates: MACs over peak of both devices, for two systems with the same
    /// work.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Implied {
        /// The banks' rate over the NPU's, in a system without offloading.
        pim_over_npu: f64,
        neupims: f64,
        attacc: f64,
        attacc_over_neupims: f64,
    }

    /// From Fig. 20 at 128 requests of 4096 tokens: NPU and PIM of LibraPIM, NeuPIMs and AttAcc.
    fn implied() -> Implied {
        let [libra, neupims, attacc] = [[0.77, 0.38], [0.62, 0.21], [0.13, 0.06]];
        let (model, layers) = (model(LLAMA).unwrap(), 80);
        let products = (model.weight_bytes() / 2 * 128) as f64;
        let attention = (layers * 128 * model.attention_macs(4096)) as f64;
        // NeuPIMs has products on the NPU and attention in memory.
        let pim_over_npu = attention / neupims[1] * neupims[0] / products;
        let rate = |[npu, pim]: [f64; 2]| npu + pim * pim_over_npu;
        Implied {
            pim_over_npu,
            neupims: rate(libra) / rate(neupims),
            attacc: rate(libra) / rate(attacc),
            attacc_over_neupims: rate(neupims) / rate(attacc),
        }
    }

    fn values(set: &str) -> Vec<(&'static str, f64, f64)> {
        let (set, designs) = (Assumptions::preset(set).unwrap(), Designs::default());
        let study = Study::new(&set, &designs);
        let computed = Paper::LibraPim.items().iter().filter(|item| item.ours.is_some());
        computed.map(|item| (item.item, item.paper, Paper::LibraPim.value(item, &study).unwrap())).collect()
    }

    fn value(values: &[(&'static str, f64, f64)], item: &str) -> f64 {
        values.iter().find(|(name, ..)| *name == item).map(|(.., ours)| *ours).unwrap()
    }

    fn near(ours: f64, paper: f64, share: f64) -> bool {
        (ours / paper - 1.0).abs() <= share
    }

    #[test]
    fn one_set_has_the_utilisations_of_fig_20_and_the_shares_of_fig_7() {
        let set = Assumptions::preset("librapim").unwrap();
        let designs = Designs::default();
        let study = Study::new(&set, &designs);
        let [libra, neupims, attacc] =
            [Mode::DexDbo, Mode::NeuPims, Mode::AttAcc].map(|mode| pinned(&study, mode).unwrap());
        for (ours, paper) in [
            (libra.npu, 0.77),
            (neupims.npu, 0.62),
            (neupims.pim, 0.21),
            (attacc.npu, 0.13),
            (attacc.pim, 0.06),
            (attacc.ms / libra.ms, 5.96),
            (neupims.ms / libra.ms, 1.28),
        ] {
            assert!(near(ours, paper, 0.1), "{ours} {paper}");
        }
        // Even banks that are always busy do not reach 38 %.
        assert!(libra.pim < 0.34 && libra.pim / libra.pim_busy < 0.345, "{libra:?}");
        let large = at(&study, Mode::Serial, GPT, 384, 4096).unwrap();
        assert!((0.2..0.25).contains(&large.npu_busy), "{large:?}");
        let published = Assumptions::preset("librapim-published").unwrap();
        let large = at(&Study::new(&published, &designs), Mode::Serial, GPT, 384, 4096).unwrap();
        assert!((0.1..0.2).contains(&large.npu_busy), "{large:?}");
    }

    #[test]
    fn published_issue_of_commands_explains_most_of_what_can_be_explained() {
        let hardware = |name| hardware(&Assumptions::preset(name).unwrap());
        let published = hardware("librapim-published");
        for (shortest, expected) in [(0, [2.3, 2.0, 1.2]), (512, [3.7, 3.4, 1.2])] {
            for (mode, expected) in BASELINES.into_iter().zip(expected) {
                let ours = mean_over(&published, mode, shortest).unwrap();
                assert!(near(ours, expected, 0.06), "{mode:?} {shortest}: {ours} {expected}");
            }
        }
        // Only the issue of commands moves NPU+AiM and AttAcc.
        let lines = contributions(&Assumptions::preset("librapim-published").unwrap(), 512).unwrap();
        let stated = lines[0].alone;
        for line in &lines[1..] {
            let issue = line.key == Some(Key::PimIssue);
            for (baseline, before) in stated.iter().enumerate().take(2) {
                let grows = line.alone[baseline] / before;
                assert_eq!(grows > 1.5, issue, "{line:?}");
            }
        }
        let last = lines.last().unwrap().together;
        let all = BASELINES.map(|mode| mean_over(&published, mode, 512).unwrap());
        assert_eq!(last, all);
    }

    #[test]
    fn what_the_paper_says_of_itself_excludes_itself() {
        let implied = implied();
        assert!(near(implied.pim_over_npu, 0.231, 0.005), "{implied:?}");
        assert!(near(implied.neupims, 1.28, 0.005) && near(implied.attacc, 5.96, 0.005), "{implied:?}");
        assert!(near(implied.attacc_over_neupims, 4.65, 0.005), "{implied:?}");
        // Commands slow enough for 6.2 leave Fig. 7's NPU less than 10 %.
        let set = Assumptions::preset("librapim").unwrap();
        let slow = hardware(&set.with(Key::PimIssue, 0.5));
        assert!(mean_over(&slow, Mode::Serial, 512).unwrap() > 6.2);
        assert!(point((&slow, None), Mode::Serial, GPT, 384, 4096).unwrap().npu_busy < 0.1);
        // NeuPIMs with sequential devices instead of slots.
        let unsliced = hardware(&set);
        let mut ratios = Vec::new();
        for model in MODELS {
            for batch in BATCHES {
                for sequence in SEQUENCES {
                    let at = |mode| point((&unsliced, None), mode, model, batch, sequence).unwrap();
                    let (neupims, libra) = (at(Mode::NeuPims), at(Mode::DexDbo));
                    ratios.push((neupims.npu_busy + neupims.pim_busy) * neupims.ms / libra.ms);
                }
            }
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!((1.3..1.9).contains(&mean), "{mean}");
    }

    #[test]
    fn stated_parameters_have_the_buses_of_the_memorys_description() {
        let stated = hardware(&Assumptions::preset("stated").unwrap());
        let tool = Hardware::default();
        assert_eq!(stated.bus_bytes_per_second(true), tool.bus_bytes_per_second(true));
        assert_eq!(Hardware { baselines: tool.baselines, ..stated }, tool);
    }

    #[test]
    fn areas_are_those_of_the_reports() {
        // A bank of 16 GiB over 64 x 16 banks: 2^27 cells of 6 F^2 at 22 nm are 0.390 mm2.
        let mm2 = f64::from(1 << 27) * 6.0 * (22e-6f64).powi(2);
        assert!((of_cells(1.0) - 100.0 * (22.0f64 / 7.0).powi(2) * 1e-6 / mm2).abs() < 1e-9);
        assert_eq!(um2(true, "pim_column_decoder").unwrap(), 6.0);
        assert_eq!(um2(true, "pim_bank_librapim").unwrap(), 4497.1);
        assert!(um2(false, "pim_bank_librapim").is_err());
    }

    #[test]
    fn every_number_of_the_paper_has_one_of_ours_and_what_differs_has_a_cause() {
        let values = values("librapim");
        assert!(values.len() >= 30 && values.iter().all(|(.., ours)| ours.is_finite()), "{values:?}");
        assert_eq!(Paper::LibraPim.items().len() - values.len(), 1);
        assert_eq!(value(&values, "tCCD with slicing over without, worst case"), 1.02);
        let found = |item: &str| Paper::LibraPim.items().iter().find(|found| found.item == item).unwrap();
        let row = |item| row(Paper::LibraPim, found(item), &Designs::default()).unwrap();
        let k = row("K of GPT3's FFN, FLOPs of a request over d_model d_ff");
        assert!(!k.agrees() && k.cause.contains("contradicts itself"), "{k:?}");
        let energy = row("LibraPIM's energy over NeuPIMs', Llama3-70B, 128 requests, mean");
        assert!(energy.cause.starts_with("With ffn_gain = 0.000"), "{energy:?}");
        let large = row("NPU+AiM's NPU active, GPT3-175B, 384 requests of 4096 tokens, 10 to 20");
        assert!(large.cause.starts_with("Agrees with pim_issue = 1."), "{large:?}");
    }
}
