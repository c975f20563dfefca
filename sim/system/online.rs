//! The host software of [`ndp_scheduler`] in the loop: neurons change places while a text is generated.
//!
//! [`Online`] begins with an offline placement from a profile. While the prompt runs it counts activity for the predictor's first
//! states; from then on each token's activity goes to a [`Session`], which adjusts, remaps and migrates in its own time model, and
//! the next token is computed where neurons are then: at once, or with linked cores when they have moved over simulated links.

use super::places::{Device, Places};
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use ndp_placement::{Instance, Options, Placement, place_random, place_structured};
use ndp_predictor::{LayerTable, NeuronStates, PredictorRules};
use ndp_scheduler::session::Start;
use ndp_scheduler::system_time::SystemTimes;
use ndp_scheduler::{Policy, Residency, SchedulerError, Session, TokenRecord, WINDOW_TOKENS};
use ndp_traces::{Activity, NeuronShape, Profile};
use std::cell::RefCell;
use std::rc::Rc;

/// What an online run begins with.
pub struct OnlineStart<'a> {
    /// The core of the DIMMs.
    pub design: &'a DesignConfig,
    /// The model.
    pub model: &'a LlmShape,
    /// The machine; its GPU's memory limits which neurons have a copy there.
    pub system: &'a SystemConfig,
    /// What is done about placement.
    pub policy: Policy,
    /// Activity of another text of the same model.
    pub profile: &'a [Activity],
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Seed of the random placement.
    pub seed: u64,
}

struct State {
    policy: Policy,
    model: LlmShape,
    shape: NeuronShape,
    residency: Residency,
    table: Rc<LayerTable>,
    times: SystemTimes,
    prompt: Profile,
    prompt_tokens: usize,
    last: Activity,
    session: Option<Session>,
    context: u32,
    records: Vec<TokenRecord>,
}

/// A handle of an online run: one half is told what was active, the other says where neurons are.
#[derive(Clone)]
pub struct Online(Rc<RefCell<State>>);

impl Online {
    /// Places the neurons.
    ///
    /// # Errors
    /// [`SchedulerError::Placement`] for a model that does not fit the system, [`SchedulerError::Predictor`] for a profile of another
    /// model.
    pub fn new(start: &OnlineStart<'_>) -> Result<Self, SchedulerError> {
        let OnlineStart { design, model, system, policy, profile, prompt_tokens, seed } = *start;
        let shape = NeuronShape::of(model);
        let mut counted = Profile::new(&shape);
        profile.iter().for_each(|activity| counted.add(activity));
        let tokens = counted.tokens().max(1) as f32;
        let frequencies: Vec<Vec<f32>> = (0..shape.blocks().len())
            .map(|block| counted.counts(block).iter().map(|&count| count as f32 / tokens).collect())
            .collect();
        // The caches lie beside the neurons; a small model's are small.
        let instance =
            Instance::new(model, system, &frequencies, &Options { kv_tokens: 0, ..Options::default() })?;
        let placement: Placement = match policy {
            Policy::Random => place_random(&instance, seed)?,
            _ => place_structured(&instance)?.0,
        };
        let dimms = (0..shape.blocks().len()).map(|block| placement.dimms(block).to_vec()).collect();
        Ok(Self(Rc::new(RefCell::new(State {
            policy,
            model: model.clone(),
            residency: Residency::new(model, system, placement.gpu().clone(), dimms)?,
            table: Rc::new(LayerTable::sample(&shape, profile.iter().cloned())?),
            times: SystemTimes::new(design, model, system, seed),
            prompt: Profile::new(&shape),
            prompt_tokens,
            last: Activity::new(&shape),
            session: None,
            context: 0,
            records: Vec::new(),
            shape,
        }))))
    }

    /// Takes what was active for a token that has been computed.
    ///
    /// # Errors
    /// As [`Session::token`].
    pub fn token(&self, activity: &Activity) -> Result<(), SchedulerError> {
        let state = &mut *self.0.borrow_mut();
        state.context += 1;
        if let Some(session) = &mut state.session {
            let record = session.token(&mut state.times, activity, state.context)?;
            state.records.push(record);
            return Ok(());
        }
        state.prompt.add(activity);
        state.last.clone_from(activity);
        if state.prompt.tokens() as usize == state.prompt_tokens {
            let tokens = f64::from(state.prompt.tokens());
            let frequencies: Vec<f64> = (0..state.shape.blocks().len())
                .flat_map(|block| state.prompt.counts(block).iter().map(|&count| f64::from(count) / tokens))
                .collect();
            let start = Start {
                model: &state.model,
                residency: state.residency.clone(),
                states: NeuronStates::from_frequencies(&state.shape, &frequencies)?,
                table: Rc::clone(&state.table),
                rules: PredictorRules::default(),
                last: &state.last,
                window: WINDOW_TOKENS,
            };
            state.session = Some(Session::new(state.policy, start)?);
        }
        Ok(())
    }

    /// What the time model says of each token behind the prompt.
    pub fn records(&self) -> Vec<TokenRecord> {
        self.0.borrow().records.clone()
    }
}

impl Places for Online {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        let state = self.0.borrow();
        let residency = state.session.as_ref().map_or(&state.residency, Session::residency);
        let block = 2 * layer as usize + kind as usize;
        if residency.on_gpu(block, neuron) {
            return Device::Gpu;
        }
        Device::Dimm(residency.dimms(block)[neuron as usize].into())
    }

    fn home(&self, layer: u32, kind: BlockKind, neuron: u32) -> u32 {
        let state = self.0.borrow();
        let residency = state.session.as_ref().map_or(&state.residency, Session::residency);
        residency.dimms(2 * layer as usize + kind as usize)[neuron as usize].into()
    }
}
