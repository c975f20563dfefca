//! `ndp figures`: the numbers of the papers' evaluations next to the numbers computed here, as CSV, SVG and one HTML
//! page.

mod energy;
#[cfg(feature = "rtl")]
mod exact;
mod report;
mod rows;

use crate::kept::Kept;
use crate::made;
use crate::prelude::*;
use ndp_systems::ablation::TraceStudy;
use ndp_systems::figures::{
    Bar, BarRow, Designs, Item, Paper, Row, Sensitivity, TokenCost, TraceSetting, bar_row, sensitivity,
    sensitivity_settings, trace_settings,
};
use std::collections::BTreeMap;

/// Compute every number that the papers' evaluations state, and report where and why ours differs
///
/// Each number is computed by formulas with stated parameters only, and with one set of assumptions for all figures
/// of a paper. With that set, exact times replace the formulas where the device is ours: hermes and hermes-base run
/// on the machine of `ndp evaluate`, and work in HBM-PIM takes the time measured on the device model. For a number
/// that differs by more than 15 %, the report gives either the assumption that would make it agree, or two numbers
/// of the paper that exclude each other. The folder keeps the computed numbers, and the user's cache folder or
/// NDP_CACHE the runs on the machine, so an interrupted run resumes.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp figures --out figures\n  \
    ndp figures --paper hermes --figure 9 --out figures\n  \
    ndp figures --quick --out figures\n  \
    ndp figures --formula --out figures\n\n\
    The folder receives PAPER.csv, PAPER.md, an SVG for each chart, figures.html and figures.json; rates and energy of the systems that \
    are compared are also in energy.csv and energy.md.")]
pub struct Args {
    /// Papers, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "PAPER,...", value_delimiter = ',')]
    paper: Vec<Paper>,
    /// Figures or tables, separated by commas: a number, or the first column of the table [default: all]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    figure: Vec<String>,
    /// Compute one number of each figure, by the formulas, and none that needs a trace
    #[arg(long)]
    quick: bool,
    /// Compute all numbers with the formulas
    #[arg(long)]
    formula: bool,
    /// Number of generated tokens that run on the machine, spread evenly over the output; the others are interpolated
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["formula", "quick"])]
    exact: u64,
    /// Folder for the files; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Compute all numbers again, even those that the folders keep
    #[arg(long)]
    fresh: bool,
}

/// Whether the user selected a figure: `12` selects 12, 12a and 12b.
fn is_of(figure: &str, asked: &[String]) -> bool {
    let parts = || figure.split([' ', ',']).filter(|part| !part.is_empty());
    let number = |part: &str| part.trim_end_matches(|c: char| c.is_ascii_lowercase()).to_owned();
    asked.is_empty()
        || asked.iter().any(|asked| {
            let asked = asked.trim();
            figure.eq_ignore_ascii_case(asked)
                || parts()
                    .any(|part| part.eq_ignore_ascii_case(asked) || number(part).eq_ignore_ascii_case(asked))
        })
}

fn papers(args: &Args) -> Vec<Paper> {
    if args.paper.is_empty() { Paper::ALL.to_vec() } else { args.paper.clone() }
}

/// The bars to draw; in a quick run, the first bar of each figure.
fn bars(args: &Args) -> Vec<(Paper, Bar)> {
    let mut all: Vec<(Paper, Bar)> = papers(args)
        .into_iter()
        .flat_map(|paper| paper.bars().into_iter().map(move |bar| (paper, bar)))
        .collect();
    all.retain(|(_, bar)| is_of(bar.figure, &args.figure));
    if args.quick {
        all.dedup_by_key(|(paper, bar)| (*paper, bar.figure));
    }
    all
}

/// The known figures, one line per paper.
fn known(args: &Args) -> String {
    let of = |paper: Paper| {
        let figures = paper.items().iter().map(|item| item.figure).unique().join("; ");
        format!("  {}: {figures}", paper.name())
    };
    papers(args).into_iter().map(of).join("\n")
}

fn chosen(args: &Args) -> Result<Vec<(Paper, &'static Item)>> {
    for asked in &args.figure {
        let is_asked = |item: &Item| is_of(item.figure, std::slice::from_ref(asked));
        let found = papers(args).iter().any(|paper| paper.items().iter().any(is_asked));
        if !found || asked.trim().is_empty() {
            bail!("--figure '{asked}': unknown figure, expected one of\n{}", known(args));
        }
    }
    let mut all = Vec::new();
    for paper in papers(args) {
        let mut before = "";
        for item in paper.items().iter().filter(|item| is_of(item.figure, &args.figure)) {
            let skipped = args.quick && (item.figure == before || item.traced);
            if !skipped {
                before = item.figure;
                all.push((paper, item));
            }
        }
    }
    Ok(all)
}

/// Studies of all traces, in parallel.
fn traces(kept: &Kept) -> Result<Vec<(TraceSetting, TraceStudy)>> {
    let settings = trace_settings()?;
    let progress = Progress::new(settings.len() as u64, "traces");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = ndp_files::map_on_threads(threads, settings.len(), |number| {
        let setting = &settings[number];
        let study = kept.value(setting.name(), || setting.run())?;
        progress.add(1);
        Ok((setting.clone(), study))
    });
    found.into_iter().collect()
}

#[derive(Default, serde::Serialize)]
pub struct Outcome {
    /// Rows of all papers, in the order of their figures.
    pub rows: Vec<Row>,
    /// Study of Hermes' Fig. 13; empty unless the user selected the figure.
    pub sensitivity: Vec<Sensitivity>,
    pub energy: Vec<BarRow>,
    /// How exact times were computed, and their errors.
    #[serde(skip)]
    pub note: Option<String>,
}

impl Outcome {
    /// Whether all rows of Hermes' Fig. 13 exist; the sensitivity study needs them.
    fn has_study(&self) -> bool {
        let hermes = Paper::Hermes.name();
        let found =
            |item: &Item| self.rows.iter().any(|row| row.paper_name == hermes && row.item == item.item);
        Paper::Hermes.items().iter().filter(|item| item.figure == "Fig. 13").all(found)
    }

    pub fn bars_of(&self, paper: &str) -> Vec<&BarRow> {
        self.energy.iter().filter(|bar| bar.paper_name == paper).collect()
    }

    pub fn by_paper(&self) -> BTreeMap<&'static str, Vec<&Row>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in &self.rows {
            all.entry(row.paper_name).or_default().push(row);
        }
        all
    }
}

/// A unique name for a bar.
fn bar_name(paper: Paper, bar: &Bar) -> String {
    let Bar { figure, system, model, prompt, output, batch, .. } = bar;
    format!("{}, {figure}: {system}, {model}, batch {batch}, {prompt} tokens in, {output} out", paper.name())
}

/// Adds numbers of earlier runs, because the files in the folder always show all numbers.
fn with_others(asked: &Outcome, kept: &Kept, folder: &Path, is_exact: bool) -> Result<Outcome> {
    let mut all =
        Outcome { sensitivity: asked.sensitivity.clone(), note: asked.note.clone(), ..Outcome::default() };
    let designs = Designs::default();
    for paper in Paper::ALL {
        let name = paper.name();
        let before = all.rows.len();
        all.rows.extend(paper.items().iter().filter_map(|item| kept.left_row(paper, item, is_exact)));
        if all.rows.len() == before && folder.join(format!("{name}.csv")).exists() {
            note!(
                "{name}.csv comes from another build, so figures.html leaves it out; `ndp figures --paper {name}` computes it again"
            );
        }
        // Of a bar only the exact cost is kept; the others take no time.
        for bar in paper.bars() {
            let is_of = |row: &BarRow| {
                (row.paper_name, row.figure) == (name, bar.figure)
                    && (&row.system, &row.model) == (&bar.system, &bar.model)
                    && (row.prompt, row.output, row.batch) == (bar.prompt, bar.output, bar.batch)
            };
            let figure_was_asked =
                asked.rows.iter().any(|row| (row.paper_name, row.figure) == (name, bar.figure));
            match asked.energy.iter().find(|row| is_of(row)) {
                Some(row) => all.energy.push(row.clone()),
                None if figure_was_asked => {}
                None if all.rows[before..].iter().any(|row| row.figure == bar.figure) => {
                    let exact = kept.left::<Option<TokenCost>>(&bar_name(paper, &bar)).flatten();
                    all.energy.push(BarRow { exact, ..bar_row(paper, bar, &designs)? });
                }
                None => {}
            }
        }
    }
    let settings = sensitivity_settings();
    let traces = trace_settings()?;
    let left: Option<Vec<TraceStudy>> = traces.iter().map(|setting| kept.left(setting.name())).collect();
    if let (true, Some(left)) = (all.sensitivity.is_empty() && all.has_study(), left) {
        for (setting, found) in traces.iter().zip(left) {
            designs.add_trace(setting, found);
        }
        all.sensitivity =
            settings.into_iter().map(|setting| sensitivity(setting, &designs)).collect::<Result<_>>()?;
    }
    Ok(all)
}

/// Designs, with exact times unless the user wants formulas, and a note on these times.
fn designs(
    args: &Args,
    items: &[(Paper, &'static Item)],
    bars: &[(Paper, Bar)],
    kept: &Kept,
) -> Result<(Designs, Option<String>)> {
    #[cfg(feature = "rtl")]
    if !args.quick && !args.formula {
        let answers = exact::Answers::new(items, bars, kept, (args.exact, args.fresh))?;
        let note = answers.note();
        return Ok((Designs::exact(Box::new(answers)), note));
    }
    let _ = (args, items, bars, kept);
    Ok((Designs::default(), None))
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let items = chosen(args)?;
    let own =
        Paper::ALL.iter().flat_map(|paper| ["csv", "md"].map(|kind| format!("{}.{kind}", paper.name())));
    let others = ["energy.csv", "energy.md", "figures.html", "figures.json"].map(str::to_owned);
    let files =
        own.chain(others).fold(FileSet::new(), |files, name| files.output("--out", args.out.join(name)));
    args.form.files(files).check()?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make the folder '{}'", args.out.display()))?;
    let kept = Kept::open(args.out.join("kept"), args.fresh)?;
    let bars = bars(args);
    let is_exact = cfg!(feature = "rtl") && !args.quick && !args.formula;
    let (designs, note) = designs(args, &items, &bars, &kept)?;
    let study = !args.quick && items.iter().any(|(_, item)| item.traced && item.figure == "Fig. 13");
    let settings = if study { sensitivity_settings() } else { Vec::new() };
    if items.iter().any(|(paper, item)| item.traced && !kept.has_row(*paper, item, is_exact)) || study {
        for (setting, found) in traces(&kept)? {
            designs.add_trace(&setting, found);
        }
    }
    let progress = Progress::new((items.len() + bars.len()) as u64, "numbers");
    let mut outcome = Outcome { note, ..Outcome::default() };
    for (paper, item) in items {
        let row = kept.row(paper, item, &designs, is_exact);
        outcome.rows.push(row.with_context(|| format!("{}, {}: {}", paper.name(), item.figure, item.item))?);
        progress.add(1);
    }
    for (paper, bar) in bars {
        let name = bar_name(paper, &bar);
        let row = bar_row(paper, bar, &designs).with_context(|| name.clone())?;
        if is_exact {
            kept.keep(&name, &row.exact)?;
        }
        outcome.energy.push(row);
        progress.add(1);
    }
    drop(progress);
    for setting in settings {
        outcome.sensitivity.push(sensitivity(setting, &designs)?);
    }
    let asked = outcome;
    let outcome = with_others(&asked, &kept, &args.out, is_exact)?;
    let write = |name: &str, text: &str| crate::output::write(&args.out.join(name), text);
    for (name, rows) in outcome.by_paper() {
        write(&format!("{name}.csv"), &rows::csv(&rows)?)?;
        write(&format!("{name}.md"), &rows::markdown(name, &rows, &outcome.sensitivity))?;
    }
    if !outcome.energy.is_empty() {
        write("energy.csv", &energy::csv(&outcome.energy)?)?;
        write("energy.md", &energy::markdown(&outcome))?;
    }
    let charts = report::charts(&outcome)?;
    charts.iter().try_for_each(|(_, name, svg)| write(name, svg))?;
    let page = || args.out.join("figures.html").display().to_string();
    let whole = report::report(&outcome, &charts, page())?.again(made::rerun());
    write("figures.html", &whole.page(&made::provenance())?)?;
    write("figures.json", &serde_json::to_string_pretty(&outcome)?)?;
    report::report(&asked, &report::charts(&asked)?, page())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn a_figure_is_found_by_its_number_and_by_its_name() {
        let figures = |asked: &str| -> Vec<&str> {
            let asked = [asked.to_owned()];
            let mut all: Vec<&str> = Paper::Hermes
                .items()
                .iter()
                .filter(|item| is_of(item.figure, &asked))
                .map(|item| item.figure)
                .collect();
            all.dedup();
            all
        };
        assert_eq!(figures("12"), ["Fig. 12a", "Fig. 12b", "Fig. 12"]);
        assert_eq!(figures("12a"), ["Fig. 12a"]);
        assert!(figures("9").contains(&"Fig. 9, 10"));
        assert_eq!(figures("abstract"), ["abstract"]);
        assert!(figures("99").is_empty());
        assert!(Paper::value_variants().len() == Paper::ALL.len());
    }
}
