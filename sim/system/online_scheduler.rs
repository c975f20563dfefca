//! The host software of [`ndp_hermes::scheduler`] in the loop: neurons move while a text is generated.
//!
//! [`OnlineScheduler`] begins with an offline placement from a profile. During the prompt it counts activity for the
//! predictor's first states; then each token's activity goes to a [`Session`], which adjusts, remaps and migrates in
//! its own time model. The next token uses the new places, with simulated links after the moves have ended.

use super::neuron_map::{Device, NeuronMap};
use super::online_predictor::states_of;
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use ndp_files::Result;
use ndp_hermes::placement::{Instance, Options, Placement, place_random, place_structured};
use ndp_hermes::predictor::{LayerTable, PredictorRules};
use ndp_hermes::scheduler::session::Start;
use ndp_hermes::scheduler::session::WindowBalance;
use ndp_hermes::scheduler::system_time::SystemTimes;
use ndp_hermes::scheduler::{Policy, Residency, Session, TokenRecord};
use ndp_traces::{Activity, NeuronShape, Profile};
use std::cell::RefCell;
use std::rc::Rc;

pub struct OnlineStart<'a> {
    pub design: &'a DesignConfig,
    pub model: &'a LlmShape,
    /// The GPU's memory limits the copies of neurons there.
    pub system: &'a SystemConfig,
    pub policy: Policy,
    pub known: &'a Known,
    /// First placement, except for the random policy; by default the offline method's.
    pub placement: Option<&'a Placement>,
    pub prompt_tokens: usize,
    pub seed: u64,
    /// Tokens per window of remapping.
    pub window: u32,
    pub rules: PredictorRules,
}

/// Statistics of a model from other texts.
#[derive(Clone, Debug)]
pub struct Known {
    pub shape: NeuronShape,
    /// Number of tokens in which each neuron was active.
    pub profile: Profile,
    /// Parents of each neuron in the previous layer.
    pub table: Rc<LayerTable>,
}

impl Known {
    /// # Errors
    /// A text of another model.
    pub fn of(shape: &NeuronShape, text: &[Activity]) -> Result<Self> {
        let mut profile = Profile::new(shape);
        text.iter().for_each(|activity| profile.add(activity));
        let table = Rc::new(LayerTable::sample(shape, text.iter().cloned())?);
        Ok(Self { shape: shape.clone(), profile, table })
    }
}

struct State {
    policy: Policy,
    model: LlmShape,
    shape: NeuronShape,
    residency: Residency,
    has_ssd: bool,
    table: Rc<LayerTable>,
    window: u32,
    rules: PredictorRules,
    times: SystemTimes,
    prompt: Profile,
    prompt_tokens: usize,
    last: Activity,
    session: Option<Session>,
    records: Vec<TokenRecord>,
}

impl State {
    fn residency(&self) -> &Residency {
        self.session.as_ref().map_or(&self.residency, Session::residency)
    }
}

/// Shared handle: one clone takes activity, the other gives the places of neurons.
#[derive(Clone)]
pub struct OnlineScheduler(Rc<RefCell<State>>);

impl OnlineScheduler {
    /// # Errors
    /// A model or placement that does not fit the system; a profile of another model.
    pub fn new(start: &OnlineStart<'_>) -> Result<Self> {
        let OnlineStart { design, model, system, policy, known, prompt_tokens, seed, window, rules, .. } =
            *start;
        let shape = known.shape.clone();
        let instance = Instance::new(model, system, &known.profile.frequencies(), &Options::default())?;
        let placement = match (policy, start.placement) {
            (Policy::Random, _) => place_random(&instance, seed)?,
            (_, Some(placement)) => {
                placement.check(&instance)?;
                placement.clone()
            }
            (_, None) => place_structured(&instance)?.0,
        };
        Ok(Self(Rc::new(RefCell::new(State {
            policy,
            model: model.clone(),
            has_ssd: placement.has_ssd(),
            residency: Residency::new(model, system, placement)?,
            table: Rc::clone(&known.table),
            window,
            rules,
            times: SystemTimes::new(design, model, system, seed),
            prompt: Profile::new(&shape),
            prompt_tokens,
            last: Activity::new(&shape),
            session: None,
            records: Vec::new(),
            shape,
        }))))
    }

    /// Takes the activity of a computed token.
    pub fn token(&self, activity: &Activity) -> Result<()> {
        let state = &mut *self.0.borrow_mut();
        if let Some(session) = &mut state.session {
            let record = session.token(&mut state.times, activity)?;
            state.records.push(record);
            return Ok(());
        }
        state.prompt.add(activity);
        state.last.clone_from(activity);
        if state.prompt.tokens() as usize == state.prompt_tokens {
            let start = Start {
                model: &state.model,
                residency: state.residency.clone(),
                states: states_of(&state.shape, &state.prompt)?,
                table: Rc::clone(&state.table),
                rules: state.rules,
                last: &state.last,
                window: state.window,
            };
            state.session = Some(Session::new(state.policy, start)?);
        }
        Ok(())
    }

    /// Balance over windows after the prompt.
    pub fn balance(&self) -> WindowBalance {
        self.0.borrow().session.as_ref().map(Session::balance).unwrap_or_default()
    }

    /// Number of moves planned but not made.
    pub fn migrations_dropped(&self) -> u64 {
        self.0.borrow().session.as_ref().map_or(0, |session| session.migration().dropped)
    }

    /// Records of the tokens after the prompt.
    pub fn records(&self) -> Vec<TokenRecord> {
        self.0.borrow().records.clone()
    }
}

impl NeuronMap for OnlineScheduler {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        if self.0.borrow().residency().on_gpu(kind.block(layer), neuron) {
            return Device::Gpu;
        }
        Device::Dimm(self.home(layer, kind, neuron))
    }

    fn home(&self, layer: u32, kind: BlockKind, neuron: u32) -> u32 {
        self.0.borrow().residency().dimms(kind.block(layer))[neuron as usize].into()
    }

    fn resident(&self, layer: u32, neuron: u32) -> Option<bool> {
        let state = self.0.borrow();
        let on_ssd = || state.residency.placement().on_ssd(BlockKind::Mlp.block(layer), neuron as usize);
        state.has_ssd.then(|| !on_ssd())
    }

    fn learns(&self) -> bool {
        let policy = self.0.borrow().policy;
        policy.adjusts_by().is_some() || policy.remaps()
    }
}
