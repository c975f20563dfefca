//! The machines: an iteration takes the time that the planners and policies compute.

use ndp_config::{DesignConfig, HbmConfig, LlmShape, SystemConfig};
use ndp_energy::{Energy, EnergyConstants, HbmConstants, NpuConstants};
use ndp_librapim::offloading::{
    AnalyticTimes, Batch, Hardware, Mode, Model, Planner, Request, Rule, StepCosts,
};
use ndp_systems::serving::librapim::kv_memory;
use ndp_systems::serving::{
    Chunk, ExactTokens, HermesSteps, KvMemory, LibraPimSteps, Parallel, StepCost, StepTimes, Summary, Synth,
    serve,
};
use ndp_systems::{Assumptions, Device, DimmModel, Machine, Policy, RunCosts, Workload};

struct Chip {
    shape: LlmShape,
    model: Model,
    hardware: Hardware,
    parallel: Parallel,
    times: [AnalyticTimes; 2],
}

impl Chip {
    fn new(llm: &str, parallel: Parallel) -> Self {
        let shape = LlmShape::preset(llm).unwrap();
        let (model, hardware) = (Model::of(&shape), Hardware::default());
        let part = parallel.part(&model).unwrap();
        let times = [false, true].map(|sliced| AnalyticTimes::new(&part, &hardware, sliced));
        Self { shape, model, hardware, parallel, times }
    }

    fn costs(&self, model: &Model) -> StepCosts {
        let memory = HbmConstants::load("hbm2-8gb").unwrap();
        StepCosts::new(model, &self.hardware, &memory, &NpuConstants::load("npu-65tflops").unwrap())
    }

    fn steps(&self, mode: Mode) -> LibraPimSteps<'_> {
        let kv = KvMemory { bytes: 1 << 40, bytes_per_token: self.shape.kv_bytes_per_token() };
        let [plain, sliced] = &self.times;
        LibraPimSteps::new(
            &self.model,
            (self.parallel, kv),
            &self.hardware,
            |model| self.costs(model),
            [plain, sliced],
            (mode, Rule::default()),
        )
        .unwrap()
    }
}

fn cost_of(machine: &mut dyn StepTimes, prompts: &[u32], contexts: &[u32]) -> StepCost {
    let chunk = |history, tokens| Chunk { place: 0, history, tokens, yields: true };
    let prompts: Vec<Chunk> = prompts.iter().map(|&tokens| chunk(0, tokens)).collect();
    let tokens: Vec<Chunk> = contexts.iter().map(|&context| chunk(context - 1, 1)).collect();
    machine.step(&prompts, &tokens).unwrap()
}

const CONTEXTS: [u32; 6] = [90, 17, 400, 33, 34, 1025];

#[test]
fn tokens_of_one_chip_are_steps_of_the_planner_in_every_mode() {
    let chip = Chip::new("llama2-7b", Parallel::default());
    let requests = CONTEXTS.map(|context| Request { context, remaining: 1 });
    let batch = Batch::new(&requests).unwrap();
    let [plain, sliced] = &chip.times;
    let planner = Planner::new(&chip.model, &chip.hardware, plain, sliced);
    for mode in Mode::ALL {
        let step = planner.step(&batch, mode).unwrap();
        let cost = cost_of(&mut chip.steps(mode), &[], &CONTEXTS);
        assert_eq!(cost.ns, step.timeline.span.0.div_ceil(1000), "{mode:?}");
        // Besides, less than a nanosecond of standby, below 1 kW.
        let (found, expected) = (cost.energy.unwrap(), chip.costs(&chip.model).of(&step).total);
        assert!(found.value >= expected.value && found.value - expected.value < 1_000_000_000, "{mode:?}");
        let busy = step.timeline.busy(ndp_librapim::offloading::Device::Npu).0 as f64 / 1e3;
        assert_eq!(cost.uses[0].busy_ns, busy);
        assert!(cost.uses.iter().all(|one| one.macs_ns <= one.busy_ns + 1.0), "{mode:?} {:?}", cost.uses);
        let mut turned = CONTEXTS;
        turned.reverse();
        assert_eq!(cost, cost_of(&mut chip.steps(mode), &[], &turned));
    }
}

#[test]
fn prompts_add_to_tokens_and_longer_ones_take_longer() {
    let chip = Chip::new("llama2-7b", Parallel::default());
    let mut steps = chip.steps(Mode::DexDbo);
    let mut ns = |prompts: &[u32], contexts: &[u32]| cost_of(&mut steps, prompts, contexts).ns;
    let (prompts, tokens) = (ns(&[100, 30], &[]), ns(&[], &CONTEXTS));
    assert_eq!(ns(&[100, 30], &CONTEXTS), prompts + tokens);
    assert!(ns(&[100], &[]) < prompts && prompts < ns(&[100, 1000], &[]));
    assert!(ns(&[4000], &[]) > ns(&[2000, 2000], &[]), "attention grows faster than the prompt");
    // A long prompt keeps the arrays busy: at most a quarter above MACs over their rate.
    let cost = cost_of(&mut steps, &[4096], &[]);
    let macs = cost.uses[0].macs_ns / cost.ns as f64;
    assert!((0.75..=1.0).contains(&macs), "{macs}");
}

#[test]
fn parts_of_a_prompt_see_what_came_before_and_add_up_to_the_macs_of_the_whole() {
    let chip = Chip::new("llama2-7b", Parallel::default());
    let mut steps = chip.steps(Mode::DexDbo);
    let mut part =
        |history, tokens, yields| steps.step(&[Chunk { place: 0, history, tokens, yields }], &[]).unwrap();
    let (first, second) = (part(0, 512, false), part(512, 512, true));
    let again = part(0, 512, true);
    assert!(again.ns > first.ns, "logits follow the last part only");
    assert!(second.ns > again.ns, "the second part sees the first one");
    let whole = part(0, 1024, true);
    // 256 vectors more or less keep the arrays busy; 16 wait for weights.
    assert!(8 * part(0, 16, false).ns > 2 * part(0, 128, false).ns, "weights are read for each part");
    // Each part has its tokens' products, and attention over all before: 512 and 1024 keys in place of 1024 for all.
    let macs = |cost: &StepCost| cost.uses[0].macs_ns;
    let missing = chip.model.attention_macs(512) * 512 * u64::from(chip.model.layers);
    let ns = missing as f64 / chip.hardware.npu_macs_per_second() * 1e9;
    assert!((macs(&whole) - macs(&first) - macs(&second) - ns).abs() < 1.0);
}

#[test]
fn chips_that_share_a_model_take_their_part_of_it() {
    let one = Chip::new("llama2-7b", Parallel::default());
    let free = Parallel { link_gbps: 1e9, link_ns: 0.0, ..Parallel::default() };
    let ns = |chip: &Chip, prompts: &[u32], contexts: &[u32]| {
        cost_of(&mut chip.steps(Mode::Dex), prompts, contexts).ns
    };
    let contexts = [512; 8];
    let whole = ns(&one, &[], &contexts) as f64;
    let tensor = Chip::new("llama2-7b", Parallel { tp: 4, ..free });
    let quarter = ns(&tensor, &[], &contexts) as f64 / whole;
    assert!((0.24..0.30).contains(&quarter), "{quarter}");
    let slow = Chip::new("llama2-7b", Parallel { tp: 4, ..Parallel::default() });
    let messages = slow.parallel.stage_ns(4096, 32, 8, (8, 32_000));
    assert!((ns(&slow, &[], &contexts) as f64 - quarter * whole - messages).abs() < 3.0);
    // Two stages with half of the layers: a step takes twice the longer micro-batch.
    let stages = Chip::new("llama2-7b", Parallel { pp: 2, ..free });
    let half = stages.parallel.part(&stages.model).unwrap();
    let [plain, sliced] = &stages.times;
    let planner = Planner::new(&half, &stages.hardware, plain, sliced);
    let micro = planner.step(&Batch::uniform(4, 512).unwrap(), Mode::Dex).unwrap();
    let expected = 2.0 * micro.timeline.span.0 as f64 / 1e3;
    assert!((ns(&stages, &[], &contexts) as f64 - expected).abs() < 3.0);
    // A single request also takes two stage times: one stage works, the other waits.
    let single = planner.step(&Batch::uniform(1, 512).unwrap(), Mode::Dex).unwrap();
    let expected = 2.0 * single.timeline.span.0 as f64 / 1e3;
    assert!((ns(&stages, &[], &[512]) as f64 - expected).abs() < 3.0);
    // One prompt takes two stage times, and two prompts take three.
    let [single, both] = [&[64][..], &[64, 64]].map(|prompts| ns(&stages, prompts, &[]) as f64);
    assert!((both / single - 1.5).abs() < 1e-3, "{both} {single}");
    // Energy of all chips is about the energy of one chip with the whole model, plus standby.
    let joules = |chip: &Chip| cost_of(&mut chip.steps(Mode::Dex), &[], &contexts).energy.unwrap().joules();
    let ratio = joules(&tensor) / joules(&one);
    assert!((0.95..1.3).contains(&ratio), "{ratio}");
}

#[test]
fn keys_and_values_have_what_weights_leave() {
    let llama = LlmShape::preset("llama3-70b").unwrap();
    let memory = HbmConfig::default().bytes();
    let weights = llama.neurons_bytes() + llama.resident_bytes();
    let eight = Parallel { tp: 8, pp: 2, ..Parallel::default() };
    assert_eq!(kv_memory(&llama, &eight, memory, None, false).unwrap().bytes, 16 * memory - weights);
    let error = kv_memory(&llama, &Parallel::default(), memory, None, false).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "weights of {weights} bytes leave no room for keys and values in the {memory} bytes of one chip"
        )
    );
    let left = 16 * memory - weights;
    let of = |given, beyond| kv_memory(&llama, &eight, memory, Some(given), beyond);
    assert_eq!(of(left, false).unwrap().bytes, left);
    assert_eq!(
        of(left + 1, false).unwrap_err().to_string(),
        format!(
            "{} bytes for keys and values exceed the {left} bytes that the weights leave in 16 chips",
            left + 1
        )
    );
    assert_eq!(of(left + 1, true).unwrap().bytes, left + 1);
    assert_eq!(kv_memory(&llama, &Parallel::default(), memory, Some(5), true).unwrap().bytes, 5);
}

#[test]
fn iterations_of_a_policy_are_its_prefill_and_its_token() {
    let design = DesignConfig::preset("hermes").unwrap();
    let model = LlmShape::preset("opt-13b").unwrap();
    let system = SystemConfig::load("hermes").unwrap();
    let (assumptions, dimms) = (Assumptions::load("hermes").unwrap(), DimmModel::new(&design));
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let constants = EnergyConstants::load(&design, "hermes", [None; 3]).unwrap();
    let costs = RunCosts::new(&design, &constants);
    for policy in [Policy::Hermes, Policy::HermesHost, Policy::FlexGen] {
        let mut steps = HermesSteps::new(machine, policy, &model, &costs, None).unwrap();
        let run = |prompt, output, batch| {
            policy.run(&machine, &Workload::new(&model, prompt, output, batch).unwrap()).unwrap()
        };
        let token = run(149, 2, 2).token;
        let cost = cost_of(&mut steps, &[], &[100, 200]);
        assert_eq!(cost.ns, token.ns().ceil() as u64, "{policy:?}");
        let joules: u128 = costs.of(&machine, &token).iter().map(|(_, energy)| energy.value).sum();
        assert_eq!(cost.energy.unwrap().value, joules);
        assert_eq!(cost.uses[0].busy_ns, token.busy_ns(Device::Gpu));
        // A mean of 150.5.
        assert_eq!(cost_of(&mut steps, &[], &[100, 201]).ns, run(150, 1, 2).token.ns().ceil() as u64);
        let prefill = run(300, 1, 1).prefill.ns().ceil() as u64;
        assert_eq!(cost_of(&mut steps, &[100, 200], &[]).ns, prefill);
        assert_eq!(cost_of(&mut steps, &[100, 200], &[100, 200]).ns, prefill + cost.ns);
    }
    let dimms = f64::from(system.dimms().count) * system.dimms().capacity_gb * 1e9;
    let room = |policy| HermesSteps::new(machine, policy, &model, &costs, None).unwrap().kv().bytes;
    // The policy counts a token of the prompt and half of a generated one.
    let left = dimms as u64 - model.neurons_bytes();
    let token = model.kv_bytes_per_token();
    assert_eq!(room(Policy::Hermes) / token, (left - token / 2) / token);
    let host = system.host().memory_gb * 1e9;
    let missing = (model.neurons_bytes() + model.resident_bytes()) as f64 - machine.gpu_bytes();
    assert_eq!(room(Policy::FlexGen), (host - missing.max(0.0)) as u64);
    let large = LlmShape::preset("gpt3-175b").unwrap();
    let error = HermesSteps::new(machine, Policy::TensorRtLlm, &large, &costs, None).err().unwrap();
    assert!(error.to_string().contains("GPU memory"), "{error}");
}

/// Tokens of 1,000 ns for each sequence and 10 ns for each position of each.
struct Affine;

impl ExactTokens for Affine {
    fn token(&self, batch: u32, context: u32) -> ndp_files::Result<StepCost> {
        let ns = u64::from(batch * (1000 + 10 * context));
        Ok(StepCost {
            ns,
            energy: Some(Energy::default()),
            uses: vec![Default::default(); Device::ALL.len()],
        })
    }
}

#[test]
fn exact_tokens_are_computed_at_powers_of_two_and_two_contexts() {
    let (design, model) = (DesignConfig::preset("hermes").unwrap(), LlmShape::preset("opt-13b").unwrap());
    let system = SystemConfig::load("hermes").unwrap();
    let (assumptions, dimms) = (Assumptions::load("hermes").unwrap(), DimmModel::new(&design));
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let costs = RunCosts::new(&design, &EnergyConstants::load(&design, "hermes", [None; 3]).unwrap());
    let steps = HermesSteps::new(machine, Policy::Hermes, &model, &costs, None).unwrap();
    let mut steps = steps.exactly(Box::new(Affine), [20, 100, 60].into_iter());
    // 3 is between 2 and 4; a mean of 51 between 20 and 100.
    assert_eq!(cost_of(&mut steps, &[], &[40, 50, 63]).ns, 3 * 1510);
    assert_eq!(steps.exact_tokens(), 4);
    assert_eq!(cost_of(&mut steps, &[], &[20, 20]).ns, 2 * 1200);
    assert_eq!(cost_of(&mut steps, &[], &[20, 21]).ns, 2 * 1205);
    assert_eq!(steps.exact_tokens(), 4);
    assert_eq!(steps.check(5, 30).unwrap(), Some([6500, 6500]));
    // Prompts take the policy's time.
    let plain = HermesSteps::new(machine, Policy::Hermes, &model, &costs, None);
    let [own, of_policy] = [&mut steps, &mut plain.unwrap()].map(|steps| cost_of(steps, &[300], &[]).ns);
    assert_eq!(own, of_policy);
}

#[test]
fn a_summary_adds_up() {
    let chip = Chip::new("llama2-7b", Parallel::default());
    let input = ndp_systems::serving::Lengths::ALPACA_INPUT;
    let output = ndp_systems::serving::Lengths::ALPACA_OUTPUT;
    let requests = Synth { requests: 60, rate: 40.0, input, output, seed: 5 }.draw().unwrap();
    let rules = ndp_systems::serving::Rules { max_batch: 16, ..ndp_systems::serving::Rules::default() };
    let mut machine = chip.steps(Mode::DexDbo);
    let outcome = serve(&requests, &rules, &mut machine, &mut |_| {}).unwrap();
    let summary = Summary::of(&outcome, &machine);
    let tokens: u64 = requests.iter().map(|request| u64::from(request.output)).sum();
    assert_eq!((summary.requests, summary.tokens), (60, tokens));
    assert!((summary.tokens_per_second * summary.seconds / tokens as f64 - 1.0).abs() < 1e-12);
    let stretch = summary.seconds / summary.throughput.len() as f64;
    let counted: f64 = summary.throughput.iter().map(|(_, rate)| rate * stretch).sum();
    assert!((counted / tokens as f64 - 1.0).abs() < 1e-9, "{counted}");
    assert!(summary.ttft.max_ms < summary.latency.max_ms && summary.ttft.p50_ms <= summary.ttft.p95_ms);
    assert!((1.0..=16.0).contains(&summary.mean_batch) && summary.kv_mean <= summary.kv_most);
    for of in &summary.utilisation {
        assert!(of.busy <= 1.0 && of.macs.unwrap() <= of.busy, "{of:?}");
    }
    let energy = outcome.energy.unwrap();
    assert_eq!(summary.joules_per_token.unwrap(), energy.per(tokens));
}
