//! `ndp schema`: unit and meaning of each number in a command's JSON.

use crate::output::Shown;
use anyhow::Result;
use ndp_config::nearest;
use ndp_report::{Report, Values, figures, rows};

/// Sections with a table each, written by the tests of the tool.
const PAGE: &str = include_str!("../../../docs/generated/schema.md");

/// List every path of a command's JSON with unit and meaning, as `ndp sweep` takes them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  ndp schema gemv\n  ndp schema compare runs --json")]
pub struct Args {
    /// Command [default: list the commands that print JSON]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Commands and their tables.
fn sections() -> impl Iterator<Item = (&'static str, Vec<Values>)> {
    PAGE.split("\n## ndp ").skip(1).map(|section| {
        let (name, text) = section.split_once('\n').unwrap_or((section, ""));
        let row = |line: &'static str| {
            let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.splitn(3, " | ");
            let path = cells.next()?.strip_suffix('`')?;
            Some(figures! {
                "path" "path" {Text} Screen: "path in the JSON; * is any index" = path;
                "unit" "unit" {Text} Screen: "unit" = cells.next()?;
                "meaning" "meaning" {Text} Screen: "meaning" = cells.next()?;
            })
        };
        (name, text.lines().filter_map(row).collect())
    })
}

/// Lists the paths of a command, or the commands.
///
/// # Errors
/// For a command without JSON.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    if args.command.is_empty() {
        let all = rows! { sections() => |(command, rows)|
            "command" "command" {Text} Screen: "command" = command;
            "paths" "paths" {Count} Screen: "paths of its JSON" = rows.len();
        };
        return Ok(Report::answer("schema", format!("{} commands print JSON", all.count()))
            .table("commands", "Commands", all));
    }
    let asked = args.command.join(" ");
    let Some((name, rows)) = sections().find(|(name, _)| *name == asked) else {
        let names: Vec<&str> = sections().map(|(name, _)| name).collect();
        bail!(
            "no command '{asked}' prints JSON, expected one of {}{}",
            names.join(", "),
            nearest(&asked, &names)
        );
    };
    Ok(Report::answer("schema", format!("ndp {name} --json has {} paths", rows.len()))
        .table("paths", "Paths", rows))
}
