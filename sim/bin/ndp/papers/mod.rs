//! `ndp figures`: every number that the papers' evaluations state beside what follows here, as CSV, SVG and one HTML page.

mod html;
mod rows;

use anyhow::{Context, Result};
use ndp_files::{FileSet, OutputFile, Progress};
use ndp_systems::ablation::TraceStudy;
use ndp_systems::figures::{
    Designs, Item, Paper, Row, Sensitivity, TraceSetting, sensitivity, sensitivity_settings, trace_settings,
};
use rows::Kept;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compute every number that the papers' evaluations state, and say where and why ours differs
///
/// Each number is computed twice: with stated parameters alone, and with one set of assumptions for all figures of a paper. What differs by more
/// than 15 % gets the assumption that would make it agree, or two numbers of the paper that exclude each other. Numbers that are computed are kept in
/// the folder, so a run that was stopped goes on where it was.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp figures --out figures\n  \
    ndp figures --paper hermes --figure 9 --out figures\n  \
    ndp figures --quick --out figures\n\n\
    The folder gets PAPER.csv, an SVG for each chart, figures.html, PAPER.md and figures.json.")]
pub struct Args {
    /// Papers, separated by commas. All if left out.
    #[arg(long, value_enum, value_name = "PAPER,...", value_delimiter = ',')]
    paper: Vec<Paper>,
    /// Figures or tables, separated by commas: a number, or what the table has in its first column. All if left out.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    figure: Vec<String>,
    /// One number of each figure, and none that needs a trace.
    #[arg(long)]
    quick: bool,
    /// Folder for the files; made if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Compute everything again.
    #[arg(long)]
    fresh: bool,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Whether an item is of a figure that was asked for: `12` has 12, 12a and 12b.
fn is_of(item: &Item, asked: &[String]) -> bool {
    let parts = || item.figure.split([' ', ',']).filter(|part| !part.is_empty());
    let number = |part: &str| part.trim_end_matches(|c: char| c.is_ascii_lowercase()).to_owned();
    asked.is_empty()
        || asked.iter().any(|asked| {
            let asked = asked.trim();
            item.figure.eq_ignore_ascii_case(asked)
                || parts()
                    .any(|part| part.eq_ignore_ascii_case(asked) || number(part).eq_ignore_ascii_case(asked))
        })
}

/// The items that were asked for.
fn chosen(args: &Args) -> Result<Vec<(Paper, &'static Item)>> {
    let papers = if args.paper.is_empty() { Paper::ALL.to_vec() } else { args.paper.clone() };
    let mut all = Vec::new();
    for paper in papers {
        let mut before = "";
        for item in paper.items().iter().filter(|item| is_of(item, &args.figure)) {
            let skipped = args.quick && (item.figure == before || item.tried.is_some());
            if !skipped {
                before = item.figure;
                all.push((paper, item));
            }
        }
    }
    if all.is_empty() {
        let mut known: Vec<&str> =
            Paper::ALL.iter().flat_map(|paper| paper.items()).map(|item| item.figure).collect();
        known.dedup();
        anyhow::bail!(
            "--figure {}: no such figure, expected one of {}",
            args.figure.join(","),
            known.join("; ")
        );
    }
    Ok(all)
}

/// Writes a file of the folder.
fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    Ok(OutputFile::create(&folder.join(name))?.finish(|out| out.write_all(text.as_bytes()))?)
}

/// What the traces show, each computed by one of as many threads as there are processors.
fn traces(kept: &Kept) -> Result<Vec<(TraceSetting, TraceStudy)>> {
    let settings = trace_settings()?;
    let progress = Progress::new(settings.len() as u64, "traces");
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(setting) = settings.get(next.fetch_add(1, Ordering::Relaxed)) {
            let study = kept.value(setting.name(), || Ok(setting.run()?))?;
            progress.add(1);
            found.push((setting.clone(), study));
        }
        Ok(found)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<Result<Vec<_>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Ok(found.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Everything that was computed.
#[derive(serde::Serialize)]
pub struct Outcome {
    /// Rows of all papers, in the order of their figures.
    pub rows: Vec<Row>,
    /// The study of Hermes' Fig. 13; empty if it was not asked for.
    pub sensitivity: Vec<Sensitivity>,
}

impl Outcome {
    /// Rows by paper.
    pub fn by_paper(&self) -> BTreeMap<&'static str, Vec<&Row>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in &self.rows {
            all.entry(row.paper_name).or_default().push(row);
        }
        all
    }
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    let items = chosen(args)?;
    FileSet::new().output("--out", args.out.join("figures.html")).check()?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make the folder '{}'", args.out.display()))?;
    let kept = Kept::open(&args.out, args.fresh)?;
    let designs = Designs::default();
    let study = !args.quick && items.iter().any(|(_, item)| item.tried.is_some() && item.figure == "Fig. 13");
    let settings = if study { sensitivity_settings() } else { Vec::new() };
    if items.iter().any(|(paper, item)| item.tried.is_some() && !kept.has_row(*paper, item)) || study {
        for (setting, found) in traces(&kept)? {
            designs.add_trace(&setting, found);
        }
    }
    let progress = Progress::new(items.len() as u64, "numbers");
    let mut outcome = Outcome { rows: Vec::new(), sensitivity: Vec::new() };
    for (paper, item) in items {
        let row = kept.row(paper, item, &designs);
        outcome.rows.push(row.with_context(|| format!("{}, {}: {}", paper.name(), item.figure, item.item))?);
        progress.add(1);
    }
    drop(progress);
    for setting in settings {
        outcome.sensitivity.push(sensitivity(setting, &designs)?);
    }
    for (name, rows) in outcome.by_paper() {
        write(&args.out, &format!("{name}.csv"), &rows::csv(&rows))?;
        write(&args.out, &format!("{name}.md"), &rows::markdown(name, &rows, &outcome.sensitivity))?;
    }
    let page = html::page(&outcome)?;
    for (name, chart) in &page.charts {
        write(&args.out, name, chart)?;
    }
    write(&args.out, "figures.html", &page.html)?;
    let json = serde_json::to_string_pretty(&outcome)?;
    write(&args.out, "figures.json", &json)?;
    if args.json {
        say!("{json}");
    } else {
        rows::print(&outcome);
        say!("\nWritten: {}", args.out.join("figures.html").display());
    }
    Ok(())
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
                .filter(|item| is_of(item, &asked))
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
