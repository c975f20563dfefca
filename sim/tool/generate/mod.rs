//! `ndp generate`: a text whose layers, including attention and caches, are computed by cores from DRAM.
//! [`crate::system`] runs the text and reports.

pub mod args;

pub use self::args::Args;

use self::args::{Job, model_path};
use crate::args::check_weights;
use crate::prelude::*;
use crate::system;
use crate::tools::quantisation_text;

pub fn run(args: &Args) -> Result<u8> {
    args.check_effects()?;
    let unit = &args.unit;
    let files = unit.files_with(&args.records)?.optional("--chart", args.chart.as_ref());
    let files = files.optional("--trace", args.trace.as_ref());
    let files = args.thresholds.iter().fold(files, |files, path| files.input("the thresholds", path));
    let files = args.placement.files(args.flash.files(files.configuration("the system", &args.system)));
    let files = files.input_folder("part of the model", model_path(args));
    files.input_folder("a stored text", workspace_path("golden/generate")).check()?;
    let config = DesignConfig::load(&unit.config)?;
    check_weights(args.weights, &config)?;
    let mut model = load_model(&model_path(args))?;
    set_thresholds(&mut model, args.thresholds.as_ref())?;
    let job = Job::new(args, &model.vocabulary)?;
    let (model, quantisation) = model.quantised(args.weights)?;
    quantisation.inspect(|error| note!("{}", quantisation_text(args.weights, error)));
    unit.form.show(|| system::run(args, &job, (&model, quantisation), &config))
}
