//! `ndp schema`: unit and meaning of each number in a command's JSON.

use crate::prelude::*;
use ndp_config::nearest;

/// The page has a section with a table for each command; the tests of the tool write it.
const PAGE: &str = include_str!("../../docs/generated/schema.md");

/// List every path of a command's JSON with unit and meaning, in the form that `ndp sweep` accepts
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  ndp schema gemv\n  ndp schema compare runs --json")]
pub struct Args {
    /// Command [default: list the commands that print JSON]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// A path, its unit and its meaning.
type Row = [&'static str; 3];

fn sections() -> impl Iterator<Item = (&'static str, Vec<Row>)> {
    PAGE.split("\n## ndp ").skip(1).map(|section| {
        let (name, text) = section.split_once('\n').unwrap_or((section, ""));
        let row = |line: &'static str| {
            let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.splitn(3, " | ");
            Some([cells.next()?.strip_suffix('`')?, cells.next()?, cells.next()?])
        };
        (name, text.lines().filter_map(row).collect())
    })
}

/// The command at the beginning of these words, and its paths.
pub fn of_words(words: &[String]) -> Option<(&'static str, Vec<Row>)> {
    let begins = |name: &str| {
        let own: Vec<&str> = name.split(' ').collect();
        words.len() >= own.len() && own.iter().zip(words).all(|(own, word)| own == word)
    };
    sections().filter(|(name, _)| begins(name)).max_by_key(|(name, _)| name.len())
}

/// Whether a JSON pointer names a value of a path.
pub fn is_at([path, unit, _]: &Row, pointer: &str) -> bool {
    let is = |(own, part): (&str, &str)| match own.strip_prefix('{').and_then(|own| own.strip_suffix('}')) {
        Some(names) => names.split(',').any(|name| name == part),
        None => own == part || own == "*",
    };
    let (own, parts) = (path.split('/'), pointer.split('/'));
    let below = parts.clone().count().cmp(&own.clone().count());
    (below.is_eq() || below.is_gt() && *unit == "object") && own.zip(parts).all(is)
}

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
    let rows = rows! { rows => |[path, unit, meaning]|
        "path" "path" {Text} Screen: "path in the JSON; * is any index" = path;
        "unit" "unit" {Text} Screen: "unit" = unit;
        "meaning" "meaning" {Text} Screen: "meaning" = meaning;
    };
    Ok(Report::answer("schema", format!("ndp {name} --json has {} paths", rows.count()))
        .table("paths", "Paths", rows))
}
