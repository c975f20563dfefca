//! Errors of the libraries that are refusals: an argument or the content of a file is wrong, and stays wrong when the command runs again.
//!
//! Every other error is a failure of the system, of a tool, or of this program.

use ndp_config::ConfigError;
use ndp_model::ModelError;
use ndp_pim::PimError;
use ndp_planner::PlanError;
use ndp_predictor::PredictorError;
use ndp_scheduler::SchedulerError;
use ndp_synth::SynthError;
use ndp_systems::SystemsError;
use ndp_traces::TraceError;
use std::error::Error;

/// Whether a cause is one of these errors; with functions, only an error for which its function returns true.
macro_rules! is_one_of {
    ($cause:ident, $($judge:ident($error:ty)),+ $(,)?) => { $($cause.downcast_ref::<$error>().is_some_and($judge))||+ };
    ($cause:ident, $($error:ty),+ $(,)?) => { $($cause.is::<$error>())||+ };
}

/// Whether a cause of an error is a refusal.
pub fn refuses(cause: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "rtl")]
    if rtl::refuses(cause) {
        return true;
    }
    is_one_of!(
        cause,
        configuration(ConfigError),
        model(ModelError),
        pim(PimError),
        planned(PlanError),
        predictor(PredictorError),
        scheduler(SchedulerError),
        synthesis(SynthError),
        systems(SystemsError),
        trace(TraceError),
    ) || is_one_of!(
        cause,
        ndp_files::NameError,
        ndp_hdl::designs::BuildError,
        ndp_hdl_language::HdlError,
        ndp_isa::IsaError,
        ndp_isa::Malformed,
        ndp_layout::LayoutError,
        ndp_machine::MachineError,
        ndp_numerics::NumericsError,
        ndp_offloading::OffloadError,
        ndp_placement::PlacementError,
        ndp_serving::ServingError,
        safetensors::SafeTensorError,
        serde_json::Error,
        toml::de::Error,
        std::num::ParseIntError,
        std::num::ParseFloatError,
    )
}

fn configuration(error: &ConfigError) -> bool {
    !matches!(error, ConfigError::Read { .. })
}

fn model(error: &ModelError) -> bool {
    match error {
        ModelError::Backend { .. } => false,
        // Weights in a form that cannot be used are there.
        ModelError::NoWeights { hint, .. } => !hint.is_empty(),
        _ => true,
    }
}

fn planned(error: &PlanError) -> bool {
    if let PlanError::Config(error) = error { configuration(error) } else { true }
}

fn pim(error: &PimError) -> bool {
    !matches!(error, PimError::Waves(_) | PimError::Group(_) | PimError::Thread { .. })
}

fn trace(error: &TraceError) -> bool {
    !error.is_of_system()
}

fn predictor(error: &PredictorError) -> bool {
    if let PredictorError::Io { reason, .. } = error { ndp_files::is_of_content(reason) } else { true }
}

fn systems(error: &SystemsError) -> bool {
    match error {
        SystemsError::Dimms(error) => scheduler(error),
        SystemsError::Config(error) => configuration(error),
        _ => true,
    }
}

fn scheduler(error: &SchedulerError) -> bool {
    match error {
        SchedulerError::Trace(error) => trace(error),
        SchedulerError::Plan(error) => planned(error),
        _ => true,
    }
}

fn synthesis(error: &SynthError) -> bool {
    match error {
        SynthError::Config(error) => configuration(error),
        SynthError::Read { reason, .. } => ndp_files::is_of_content(reason),
        SynthError::Write { .. }
        | SynthError::MissingTool { .. }
        | SynthError::ToolFailed { .. }
        | SynthError::Timeout { .. }
        | SynthError::Output { .. } => false,
        _ => true,
    }
}

/// Errors of simulations.
#[cfg(feature = "rtl")]
mod rtl {
    use super::{configuration, model, predictor, scheduler, trace};
    use ndp_sim::error::SimError;
    use ndp_sim::hbm::{ControlledError, LockstepError};
    use ndp_sim::link::network::NetworkError;
    use ndp_sim::system::{EvaluateError, PredictedError, SetupError};
    use ndp_traces::capture::CaptureError;

    pub fn refuses(cause: &(dyn std::error::Error + 'static)) -> bool {
        is_one_of!(
            cause,
            simulation(SimError),
            evaluation(EvaluateError),
            setup(SetupError),
            predicted(PredictedError),
            channel(LockstepError),
            controller(ControlledError),
            network(NetworkError),
            captured(CaptureError<SimError>),
        )
    }

    fn simulation(error: &SimError) -> bool {
        match error {
            SimError::Config(error) => configuration(error),
            SimError::Model(error) => model(error),
            SimError::Unsupported { .. }
            | SimError::Unfit { .. }
            | SimError::Flash { .. }
            | SimError::WaveFormat { .. }
            | SimError::WaveWindow { .. }
            | SimError::WaveDepth
            | SimError::Range { .. }
            | SimError::Length { .. }
            | SimError::NeedsRtl { .. }
            | SimError::Machine(_)
            | SimError::Numerics(_)
            | SimError::Predictor(_)
            | SimError::Layout(_) => true,
            // The cache, Verilator and the compiler are among the others.
            _ => false,
        }
    }

    fn evaluation(error: &EvaluateError) -> bool {
        match error {
            EvaluateError::Scheduler(error) => scheduler(error),
            EvaluateError::System(error) => simulation(error),
        }
    }

    fn setup(error: &SetupError) -> bool {
        match error {
            SetupError::Config(error) => configuration(error),
            SetupError::Model(error) => model(error),
            SetupError::Scheduler(error) => scheduler(error),
        }
    }

    fn predicted(error: &PredictedError) -> bool {
        match error {
            PredictedError::Predictor(error) => predictor(error),
            PredictedError::Model(error) => model(error),
        }
    }

    // Each of these shows a `SimError` as if it were its own, so the chain of causes does not have it.
    fn channel(error: &LockstepError) -> bool {
        if let LockstepError::Sim(error) = error { simulation(error) } else { false }
    }

    fn controller(error: &ControlledError) -> bool {
        match error {
            ControlledError::Sim(error) => simulation(error),
            ControlledError::Lockstep(error) => channel(error),
            _ => false,
        }
    }

    fn network(error: &NetworkError) -> bool {
        if let NetworkError::Sim(error) = error { simulation(error) } else { false }
    }

    fn captured(error: &CaptureError<SimError>) -> bool {
        match error {
            CaptureError::Backend(error) => simulation(error),
            CaptureError::Trace(error) => trace(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_files::{REFUSED, UNUSABLE, exit_code};
    use ndp_numerics::NumericsError;
    use std::io;

    #[test]
    fn refusals_of_libraries_are_told_from_failures_under_them() {
        let code = |error: anyhow::Error| exit_code(&error, refuses);
        let lost = || io::Error::from_raw_os_error(2);
        let unreadable = || ConfigError::Read { path: "x".into(), reason: "no such file".into() };
        let wrong = || ConfigError::PowerOfTwo { key: "gemv.lanes", value: 3 };
        let not_finite = || ModelError::Numerics {
            at: "generated token 0".into(),
            source: NumericsError::NonFiniteLogit { position: 0, bits: 0x7E00 },
        };
        for error in [
            anyhow::Error::from(wrong()).context("--config"),
            SynthError::from(wrong()).into(),
            SynthError::Liberty { path: "x".into(), reason: "no cells".into() }.into(),
            TraceError::Trailing.into(),
            SchedulerError::from(TraceError::Trailing).into(),
            ModelError::EmptyPrompt.into(),
            PlanError::from(wrong()).into(),
            not_finite().into(),
            PimError::Mode("attacc").into(),
        ] {
            assert_eq!(code(error), REFUSED);
        }
        let trace = || TraceError::InFile {
            path: "x".into(),
            error: Box::new(TraceError::Io { action: "open x".into(), reason: lost() }),
        };
        for error in [
            unreadable().into(),
            SynthError::from(unreadable()).into(),
            SynthError::MissingTool { program: "yosys".into(), hint: "install it", reason: lost() }.into(),
            trace().into(),
            SchedulerError::from(trace()).into(),
            PredictorError::Io { path: "x".into(), reason: lost() }.into(),
            SystemsError::from(unreadable()).into(),
            ModelError::Io { path: "x".into(), source: lost() }.into(),
            anyhow::Error::new(lost()).context("cannot read 'x'"),
            PimError::Thread { group: 1, reason: io::Error::from_raw_os_error(11) }.into(),
            PimError::Group("it panicked".into()).into(),
        ] {
            assert_eq!(code(error), UNUSABLE);
        }
        #[cfg(feature = "rtl")]
        {
            use ndp_sim::error::SimError;
            use ndp_sim::hbm::{ControlledError, LockstepError};
            use ndp_sim::link::network::NetworkError;
            use ndp_sim::system::{EvaluateError, PredictedError};
            use ndp_traces::capture::CaptureError;
            let build =
                SimError::Build { design: "gemv_unit".into(), reason: "cannot lock the cache".into() };
            assert_eq!(code(build.into()), UNUSABLE);
            assert_eq!(code(SimError::Memory { design: "gemv_unit".into() }.into()), UNUSABLE);
            for error in [
                SimError::WaveDepth.into(),
                LockstepError::Sim(SimError::WaveDepth).into(),
                ControlledError::Lockstep(SimError::WaveDepth.into()).into(),
                NetworkError::Sim(SimError::WaveDepth).into(),
                CaptureError::Backend(SimError::WaveDepth).into(),
                PredictedError::Model(ModelError::EmptyPrompt).into(),
            ] {
                assert_eq!(code(error), REFUSED);
            }
            assert_eq!(code(EvaluateError::System(SimError::Config(wrong())).into()), REFUSED);
        }
    }
}
