//! An evaluation as text.

use ndp_sim::system::Evaluation;

use crate::energy;
use crate::system::{flash, time};

/// Prints tables, those of energy if they are asked for.
pub fn print(result: &Evaluation, with_energy: bool) {
    let Evaluation {
        model, weights, system, dimms, profiled_tokens, prompt_tokens, generated_tokens, ..
    } = result;
    say!("{model}, {weights} weights, on {system} with {dimms} DIMMs; trace: {}", result.trace);
    say!("{profiled_tokens} tokens profiled, {prompt_tokens} of the prompt, {generated_tokens} generated");
    let percent = |share: f64| 100.0 * share;
    let at = |distance: usize| {
        let share = result.similarity.get(distance - 1);
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", percent(*share)))
    };
    say!(
        "active {:.1} %; similarity of tokens {} at distance 1, {} at 10, {} at 25",
        percent(result.density),
        at(1),
        at(10),
        at(25)
    );
    let placement = result.placement;
    say!(
        "placement{} {:.1} us, bound {:.1} us, gap {:.4} %, {:.2} GB of neurons on the GPU\n",
        if placement.given { " of the file" } else { "" },
        placement.objective_us,
        placement.bound_us,
        percent(placement.gap),
        placement.gpu_bytes as f64 / 1e9
    );
    say!("predictor          accuracy  precision  recall");
    for p in &result.predictors {
        say!(
            "{:18} {:7.2} % {:8.2} % {:6.2} %",
            p.name,
            percent(p.accuracy),
            percent(p.precision),
            percent(p.recall)
        );
    }
    say!(
        "\npolicy             tokens/s   token us    MLP us  GPU share  max/mean  window  planned  up MB  moved MB"
    );
    for p in &result.policies {
        say!(
            "{:18} {:8.2} {:10.0} {:9.0} {:8.1} % {:9.3} {:7.3} {:8.3} {:6.1} {:9.2}",
            p.policy.name(),
            p.tokens_per_second,
            p.token_us,
            p.mlp_us,
            percent(p.gpu_share),
            p.imbalance,
            p.windows.before,
            p.windows.planned,
            p.upload_bytes_per_token / 1e6,
            p.migration_bytes_per_token / 1e6
        );
    }
    for p in &result.policies {
        say!("\n{}", p.policy.name());
        time::print(&p.time);
        p.flash.iter().for_each(flash::print);
        if let Some(found) = p.energy.as_ref().filter(|_| with_energy) {
            energy::print(found);
        }
        if let Some(e) = &p.estimated {
            say!(
                "estimates          {} of {} programs ran; {} estimates compared with a run are off by {:.2} % together, each by {:.1} %",
                e.run,
                e.run + e.estimated,
                e.checked,
                percent(e.error()),
                percent(e.mean_distance())
            );
        }
    }
    say!("\nMLP time of one policy over that of another    here  paper");
    for a in &result.ablation {
        say!("{:44} {:6.2} {:6.2}", format!("{} -> {}", a.from, a.to), a.ratio, a.paper);
    }
}
