//! Does the energy of a step match its work, and do the sums agree?

use ndp_config::LlmShape;
use ndp_energy::{Energy, HbmConstants, HbmEvent, NpuConstants};
use ndp_librapim::offloading::{
    AnalyticTimes, Batch, Decision, Device, Hardware, Job, Mode, Model, Pim, Planner, Purpose, Rule, Step,
    StepCosts, StepEnergy, Work,
};

fn model(name: &str, layers: u32) -> Model {
    Model::of(&LlmShape::preset(name).unwrap()).with_layers(layers).unwrap()
}

fn costs(model: &Model, hardware: &Hardware) -> StepCosts {
    let memory = HbmConstants::preset("hbm2-8gb").unwrap();
    StepCosts::new(model, hardware, &memory, &NpuConstants::preset("npu-65tflops").unwrap())
}

fn step(model: &Model, hardware: &Hardware, batch: &Batch, mode: Mode) -> Step {
    let [plain, sliced] = [false, true].map(|sliced| AnalyticTimes::new(model, hardware, sliced));
    Planner::new(model, hardware, &plain, &sliced).step(batch, mode).unwrap()
}

/// MACs of the jobs on the NPU and in memory.
fn macs(model: &Model, step: &Step) -> [u64; 2] {
    let mut macs = [0; 2];
    for (job, times) in &step.jobs {
        match job {
            Job::Matrix { work, npu, pim } => {
                let weights = match work {
                    Work::Qkv => model.qkv().weights(),
                    Work::Projection => model.projection().weights(),
                    Work::Ffn => model.ffn_weights(),
                    Work::Head => model.head().weights(),
                    Work::Mha => unreachable!(),
                };
                macs[0] += u64::from(*npu) * weights * times;
                macs[1] += u64::from(*pim) * weights * times;
            }
            Job::Coprocessed { requests, npu_macs, pim_macs } => {
                assert_eq!(npu_macs + pim_macs, u64::from(*requests) * model.ffn_weights());
                macs[0] += npu_macs * times;
                macs[1] += pim_macs * times;
            }
            Job::Attention { device, contexts } => {
                let of: u64 = contexts.iter().map(|&context| model.attention_macs(context)).sum();
                macs[usize::from(*device == Device::Pim)] += of * times;
            }
        }
    }
    macs
}

#[test]
fn jobs_are_all_of_a_steps_work_and_all_sums_agree() {
    let (mut ffn, mut mha) = (0, 0);
    for name in ["gpt3-175b", "llama3-70b"] {
        for t_ccd_l in [2, 16] {
            let hardware = Hardware::from(Pim { t_ccd_l, ..Pim::default() });
            let model = model(name, 3);
            let costs = costs(&model, &hardware);
            for (requests, context) in [(1, 9), (64, 700), (128, 4096), (384, 16), (384, 2048)] {
                let batch = Batch::uniform(requests, context).unwrap();
                for mode in Mode::ALL {
                    let step = step(&model, &hardware, &batch, mode);
                    assert_eq!(
                        macs(&model, &step),
                        [step.npu_macs, step.pim_macs],
                        "{name} {requests} {mode:?}"
                    );
                    let energy = costs.of(&step);
                    let sum: Energy = energy.purposes.iter().map(|(_, energy)| *energy).sum();
                    assert_eq!(sum, energy.total);
                    let npu = energy.of(Purpose::NpuArithmetic) + energy.of(Purpose::NpuStandby);
                    assert_eq!(energy.memory + npu, energy.total);
                    assert_eq!(energy.parts.total(), energy.memory);
                    assert_eq!(energy.of(Purpose::NpuArithmetic).value, 740 * u128::from(step.npu_macs));
                    ffn += u32::from(energy.of(Purpose::MatricesInMemory).value > 0);
                    mha += u32::from(energy.of(Purpose::AttentionOnNpu).value > 0);
                }
            }
        }
    }
    assert!(ffn > 3 && mha > 3, "{ffn} {mha}");
}

/// By hand: 8 query heads per head of K and V, width 128, FFN 28672.
#[test]
fn commands_of_a_step_are_those_that_its_sizes_give() {
    let hardware = Hardware::default();
    let model = model("llama3-70b", 1);
    let costs = costs(&model, &hardware);
    let batch = Batch::uniform(2, 512).unwrap();
    let energy = costs.of(&step(&model, &hardware, &batch, Mode::Serial));
    let count = |event| energy.counted.get(event);
    // 16 FP16 weights to a column; Q, K, V, projection, FFN of three matrices, head.
    let weights = 8192 * (8192 + 2 * 1024) + 8192 * 8192 + 3 * 8192 * 28672 + 8192 * model.vocabulary as u64;
    assert_eq!(count(HbmEvent::Read), weights / 16);
    // In 16 banks, 512 keys are 32 in a bank of 8 columns each; 8 elements of 512 positions are 8 times 32 columns.
    let heads = 2 * 8;
    assert_eq!(count(HbmEvent::Mac), heads * 8 * (256 + 256));
    assert_eq!(count(HbmEvent::BufferWrite), heads * 8 * (8 + 32));
    assert_eq!(count(HbmEvent::Result), heads * 8 * (32 + 8));
    // The host opens a row anew for each head of Q.
    assert_eq!(count(HbmEvent::Row), weights / 512 + heads * 8 * 16 * (8 + 8));
    let unused = [HbmEvent::BufferRead, HbmEvent::Write, HbmEvent::Sum, HbmEvent::PrechargedClock];
    assert_eq!(unused.map(count), [0; 4]);
}

#[test]
fn offloaded_ffns_are_multiplied_in_the_banks_and_read_once() {
    let hardware = Hardware::default();
    let model = model("llama3-70b", 4);
    let costs = costs(&model, &hardware);
    let batch = Batch::uniform(384, 64).unwrap();
    let [plain, sliced] = [false, true].map(|sliced| AnalyticTimes::new(&model, &hardware, sliced));
    let planner = Planner::new(&model, &hardware, &plain, &sliced).with_rule(Rule::Paper);
    let [dex, dbo] = [Mode::Dex, Mode::DexDbo].map(|mode| planner.step(&batch, mode).unwrap());
    let Some(Decision::Ffn(m)) = dbo.choice.map(|choice| choice.decision) else { panic!("{:?}", dbo.choice) };
    assert_eq!(m, 32);
    let [plain, shared]: [StepEnergy; 2] = [&dex, &dbo].map(|step| costs.of(step));
    let difference = |event| shared.counted.get(event) - plain.counted.get(event);
    // FFNs beside the other group's attention: in the middle and last slots, except the very last.
    let ffns = 2 * 4 - 1;
    let columns = ffns * 3 * 8192 * 28672 / 16;
    let passes = u64::from(m.div_ceil(16));
    assert_eq!(shared.counted.get(HbmEvent::BufferRead), passes * columns);
    assert_eq!(plain.counted.get(HbmEvent::Read) - shared.counted.get(HbmEvent::Read), columns);
    assert_eq!(difference(HbmEvent::Mac), passes * columns);
    // Rows of inputs: 16 pieces of up and gate, 56 of down.
    assert_eq!(difference(HbmEvent::Result), passes * ffns * (2 * 16 * 28672 + 56 * 8192));
    assert_eq!(difference(HbmEvent::Write), ffns * 64 * u64::from(m) * (2 * 512 + 1792));
    let pieces = 2 * 16 + 56;
    // The second pass reads the weights again for the memory.
    let again = (passes - 1) * columns / 32;
    assert_eq!(difference(HbmEvent::Row), again + ffns * 64 * pieces * (u64::from(m) + passes * 16));
    let [low, value, high] = shared.over(&plain, true).unwrap();
    assert!(1.0 < low && low < value && value < high, "{low} {value} {high}");
}

#[test]
fn a_number_that_is_given_takes_the_place_of_the_decision() {
    let hardware = Hardware::default();
    let model = model("llama3-70b", 3);
    let [plain, sliced] = [false, true].map(|sliced| AnalyticTimes::new(&model, &hardware, sliced));
    let planner = || Planner::new(&model, &hardware, &plain, &sliced);
    let costs = costs(&model, &hardware);
    for requests in [128, 32] {
        let batch = Batch::uniform(requests, 64).unwrap();
        let with = |m| planner().with_ffn(Some(m)).unwrap().step(&batch, Mode::DexDbo).unwrap();
        let dex = planner().step(&batch, Mode::Dex).unwrap();
        let none = with(0);
        assert_eq!((none.jobs.clone(), none.timeline.clone()), (dex.jobs.clone(), dex.timeline.clone()));
        let decided = with(5);
        let choice = decided.choice.unwrap();
        assert_eq!(choice.decision, Decision::Ffn(5));
        assert_eq!(macs(&model, &decided), [decided.npu_macs, decided.pim_macs]);
        // All FFNs of a step except the last have attention beside them.
        let ffn = model.ffn_weights();
        assert_eq!(decided.pim_macs - dex.pim_macs, 5 * ffn * (2 * 3 - 1));
        // 1 or 16 requests take equally many MACs, 17 twice as many.
        let macs =
            |m| costs.of(&with(m)).counted.get(HbmEvent::Mac) - costs.of(&dex).counted.get(HbmEvent::Mac);
        assert_eq!(macs(1), macs(16));
        if requests == 128 {
            assert_eq!(macs(17), 2 * macs(1));
        }
        assert_eq!(with(requests / 2).choice.unwrap().decision, Decision::Ffn(requests / 2));
    }
    for mode in [Mode::Dbo, Mode::DexDbo] {
        let planner = planner().with_ffn(Some(17)).unwrap();
        let error = planner.step(&Batch::uniform(32, 64).unwrap(), mode).unwrap_err().to_string();
        assert_eq!(error, "requests of a group whose FFN is offloaded = 17 must be in 0..=16");
    }
    let error = planner().with_ffn(Some(65)).err().unwrap().to_string();
    assert_eq!(error, "requests of a group whose FFN is offloaded = 65 must be in 0..=64");
}
