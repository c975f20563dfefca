//! The points of a sweep, expanded from a TOML file of configurations and commands.

use crate::prelude::*;
use ndp_config::NameRule;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use toml::{Table, Value};

const MOST_BYTES: u64 = 1 << 20;
const MOST_POINTS: usize = 1_000_000;
/// Approximate bound on the bytes of all points: half of the largest points.jsonl that is read.
const MOST_TEXT: usize = 1 << 29;
/// Most configuration files of a command.
const MOST_FILES: usize = 64;
/// Approximate bytes of a point without its texts.
const POINT_BYTES: usize = 200;
/// Bytes of a hash in a key, two digits each.
const KEY_BYTES: usize = 12;

/// Options for files or folders that a command writes. `--trace` is an input of most commands.
const OUTPUTS: [&str; 11] = [
    "chart",
    "commands",
    "html",
    "keep",
    "lp-out",
    "out",
    "report",
    "sample-times",
    "step",
    "timeline",
    "waves",
];

/// Values of keys, by their path such as `gemv.multipliers`, or values of a command's options.
type Chosen = BTreeMap<String, Value>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a sweep with [[files]] and [[commands]]")]
struct Space {
    #[serde(default)]
    files: Vec<FileSpace>,
    commands: Vec<CommandSpace>,
}

/// Configurations for commands, passed as a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "[[files]] with base and keys")]
struct FileSpace {
    #[serde(default = "config_option")]
    option: String,
    base: String,
    /// Lists of values; the sweep uses all their combinations.
    #[serde(default)]
    keys: Table,
    /// Further combinations of values.
    #[serde(default)]
    list: Vec<Table>,
}

fn config_option() -> String {
    "--config".to_owned()
}

/// A command, and the metrics in its report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "[[commands]] with name, run and metrics")]
struct CommandSpace {
    name: String,
    run: String,
    #[serde(default)]
    options: Table,
    /// JSON pointers (RFC 6901) into the output with `--json`.
    metrics: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Name of the result: a hash of everything on which it depends.
    pub key: String,
    pub command: String,
    /// Arguments without files.
    pub words: Vec<String>,
    /// Options with the text of their files.
    pub files: Vec<(String, String)>,
    /// Keys of configurations that the sweep sets.
    pub keys: BTreeMap<String, Value>,
    /// Options of the command that the sweep sets.
    pub options: BTreeMap<String, Value>,
    /// Names of metrics, and JSON pointers to them.
    pub metrics: BTreeMap<String, String>,
    /// Number of points of the sweep; missing in older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
}

impl Point {
    /// Checks parts of paths and commands, because anyone may have written the list of points.
    pub fn check(&self, points: usize) -> Result<()> {
        let digits = self.key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        ensure!(
            digits && self.key.len() == 2 * KEY_BYTES,
            "the key {:?} is not {} hexadecimal digits",
            self.key,
            2 * KEY_BYTES
        );
        ensure!(
            begins_with_subcommand(&self.words),
            "the command of point {} is not a subcommand of ndp",
            self.key
        );
        self.files.iter().try_for_each(|(option, _)| check_option(option))?;
        let of = self.of.unwrap_or(points);
        ensure!(of == points, "it has {points} of {of} points; `ndp sweep run` writes it again");
        Ok(())
    }
}

fn begins_with_subcommand(words: &[String]) -> bool {
    words.first().is_some_and(|word| !word.starts_with('-') && word != "sweep")
}

fn check_option(option: &str) -> Result<()> {
    let Some(name) = option.strip_prefix("--") else {
        bail!("option = \"{option}\" of [[files]] has to begin with --");
    };
    NameRule::Word.check(name).map_err(|error| refusal!("an option of [[files]], {error}"))
}

/// Reads the points and the bases of configurations. Commands vary faster than configurations, the last key fastest.
pub fn read(path: &Path) -> Result<(Vec<Point>, Vec<String>)> {
    let text = ndp_files::read_text(path, MOST_BYTES)
        .with_context(|| format!("cannot read '{}'", path.display()))?;
    let points = points(&text).with_context(|| format!("in '{}'", path.display()))?;
    let bases = toml::from_str::<Space>(&text)?.files.into_iter().map(|file| file.base);
    Ok((points, bases.collect()))
}

fn points(text: &str) -> Result<Vec<Point>> {
    let space: Space = toml::from_str(text)?;
    ensure!(!space.commands.is_empty(), "there is no [[commands]]: a sweep runs at least one");
    let names: BTreeSet<&str> = space.commands.iter().map(|command| command.name.as_str()).collect();
    ensure!(names.len() == space.commands.len(), "two [[commands]] have the same name");
    ensure!(space.files.len() <= MOST_FILES, "there are more than {MOST_FILES} [[files]]");
    space.files.iter().try_for_each(|file| check_option(&file.option))?;
    let files: Vec<Axes> = space.files.iter().map(Axes::of_file).collect::<Result<_>>()?;
    let commands: Vec<Axes> = space.commands.iter().map(Axes::of_command).collect::<Result<_>>()?;
    let count = count_of(&files, &commands)?;
    let mut configurations: Vec<(Vec<(String, String)>, Chosen)> = vec![(Vec::new(), Chosen::new())];
    for (file, axes) in space.files.iter().zip(&files) {
        let base: Table =
            toml::from_str(&axes.text).with_context(|| format!("base = \"{}\" is not TOML", file.base))?;
        let choices = axes.choices();
        let mut all = Vec::new();
        for (files, chosen) in &configurations {
            for choice in &choices {
                let mut table = base.clone();
                for (key, value) in choice {
                    set(&mut table, key, value)?;
                }
                let text = toml::to_string(&table)?;
                let files = files.iter().cloned().chain([(file.option.clone(), text)]).collect();
                let mut chosen = chosen.clone();
                for (key, value) in choice {
                    let twice = chosen.insert(key.clone(), value.clone());
                    ensure!(twice.is_none(), "key `{key}` is swept in two [[files]]");
                }
                all.push((files, chosen));
            }
        }
        configurations = all;
    }
    let mut runs = Vec::new();
    for (command, axes) in space.commands.iter().zip(&commands) {
        runs.extend(axes.choices().into_iter().map(|options| (command, options)));
    }
    let mut points = Vec::with_capacity(count);
    for (files, of_files) in &configurations {
        for (command, options) in &runs {
            let point = point(command, files, of_files, options.clone())?;
            points.push(Point { of: Some(count), ..point });
        }
    }
    let keys: BTreeSet<&str> = points.iter().map(|point| point.key.as_str()).collect();
    ensure!(keys.len() == points.len(), "two points are the same: a value or a list appears twice");
    Ok(points)
}

/// Finds refusals before a run. For each reason: number of points, and the first point.
pub fn refusals(points: &[Point], numbers: &[usize]) -> BTreeMap<String, (usize, usize)> {
    let mut cli = crate::cli::command();
    let (mut of_words, mut of_files) = (HashMap::new(), HashMap::new());
    let mut found = BTreeMap::new();
    for number in numbers {
        let point = &points[*number];
        let own =
            of_words.entry((&point.words, &point.metrics)).or_insert_with(|| of_arguments(point, &mut cli));
        let files = point.files.iter().map(|(option, text)| {
            of_files.entry((option, text)).or_insert_with(|| of_file(option, text)).clone()
        });
        for reason in [own.clone()].into_iter().chain(files).filter_map(Result::err) {
            found.entry(reason).or_insert((0, *number)).0 += 1;
        }
    }
    found
}

/// Checks arguments against the command line, and metrics against the schema.
fn of_arguments(point: &Point, cli: &mut clap::Command) -> Result<(), String> {
    let files = point.files.iter().flat_map(|(option, _)| [option.as_str(), "file.toml"]);
    let words = ["ndp"].into_iter().chain(point.words.iter().map(String::as_str)).chain(files);
    let (words, _) = crate::cli::renamed(words.map(Into::into).collect());
    if let Err(error) = cli.try_get_matches_from_mut(&words) {
        // Usage and hints follow an empty line.
        let text = error.to_string();
        return Err(one_line(super::folder::bare(text.split("\n\n").next().unwrap_or_default())));
    }
    let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((command, rows)) = crate::schema::of_words(&words) else { return Ok(()) };
    for (metric, pointer) in &point.metrics {
        if !rows.iter().any(|row| crate::schema::is_at(row, pointer)) {
            let paths: Vec<&str> = rows.iter().map(|[path, ..]| *path).collect();
            let near = ndp_config::nearest(pointer, &paths);
            return Err(format!(
                "metric `{metric}`: ndp {command} has no number at {pointer}, see `ndp schema {command}`{near}"
            ));
        }
    }
    Ok(())
}

pub fn one_line(text: &str) -> String {
    text.split_whitespace().join(" ")
}

fn of_file(option: &str, text: &str) -> Result<(), String> {
    let read = match option {
        "--config" => DesignConfig::from_toml(text).map(drop),
        "--memory" => HbmConfig::from_toml(text).map(drop),
        "--system" => SystemConfig::from_toml(text).map(drop),
        _ => Ok(()),
    };
    read.map_err(|error| one_line(&format!("{option}: {error:#}")))
}

/// Files that points write: number of the point, option and path.
pub fn outputs(points: &[Point]) -> Vec<(usize, &str, &str)> {
    let mut all = Vec::new();
    for (number, point) in points.iter().enumerate() {
        for (index, word) in point.words.iter().enumerate() {
            let Some(word) = word.strip_prefix("--") else { continue };
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (word, point.words.get(index + 1).map(String::as_str)),
            };
            let trace = option == "trace" && point.words[0] == "generate";
            if let Some(value) = value.filter(|_| trace || OUTPUTS.contains(&option)) {
                all.push((number, option, value));
            }
        }
    }
    all
}

/// A grid to expand: the keys of a file, or the options of a command.
struct Axes {
    /// Text that each combination contains: the base, or the command.
    text: String,
    grid: Vec<(String, Vec<Value>)>,
    /// Further combinations of values.
    list: Vec<Chosen>,
    /// Whether the grid counts, which it does if it has axes or there is no list.
    gridded: bool,
}

impl Axes {
    fn of_file(file: &FileSpace) -> Result<Self> {
        Ok(Self {
            text: base_text(&file.option, &file.base)?,
            grid: grid_of(&file.keys, "keys")?,
            list: file.list.iter().map(leaves).collect::<Result<_>>()?,
            gridded: !file.keys.is_empty() || file.list.is_empty(),
        })
    }

    fn of_command(command: &CommandSpace) -> Result<Self> {
        let CommandSpace { name, run, options, metrics } = command;
        NameRule::Word.check(name).map_err(|error| refusal!("the name of a command, {error}"))?;
        ensure!(!metrics.is_empty(), "command `{name}` has no metrics");
        for (metric, pointer) in metrics {
            ensure!(
                pointer.starts_with('/'),
                "metric `{metric}` = \"{pointer}\" of command `{name}` must begin with /; `ndp schema COMMAND` lists the paths"
            );
            NameRule::Word
                .check(metric)
                .map_err(|error| refusal!("a metric of command `{name}`, {error}"))?;
        }
        let metrics: usize = metrics.iter().map(|(name, pointer)| name.len() + pointer.len()).sum();
        Ok(Self {
            text: format!("{run}{}", " ".repeat(metrics)),
            grid: grid_of(options, "options")?,
            list: Vec::new(),
            gridded: true,
        })
    }

    /// Number of combinations; `None` on overflow.
    fn count(&self) -> Option<usize> {
        let grid = self.grid.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()))?;
        if self.gridded { grid.checked_add(self.list.len()) } else { Some(self.list.len()) }
    }

    /// Approximate bytes of the longest combination. Keys and values occur twice: in the text and next to it.
    fn bytes(&self) -> usize {
        let of = |key: &str, value: &Value| 2 * (key.len() + value.to_string().len());
        let longest = |(key, values): &(String, Vec<Value>)| values.iter().map(|value| of(key, value)).max();
        let grid: usize = self.grid.iter().filter_map(longest).sum();
        let listed = self.list.iter().map(|chosen| chosen.iter().map(|(key, value)| of(key, value)).sum());
        self.text.len() + listed.max().unwrap_or(0).max(grid)
    }

    /// The combinations; the last axis varies fastest.
    fn choices(&self) -> Vec<Chosen> {
        let mut all = if self.gridded { vec![Chosen::new()] } else { Vec::new() };
        for (key, values) in &self.grid {
            let with = |chosen: &Chosen, value: &Value| {
                let mut chosen = chosen.clone();
                chosen.insert(key.clone(), value.clone());
                chosen
            };
            all = all.iter().flat_map(|chosen| values.iter().map(move |value| with(chosen, value))).collect();
        }
        all.extend(self.list.iter().cloned());
        all
    }
}

/// Number of points, computed before any is made.
fn count_of(files: &[Axes], commands: &[Axes]) -> Result<usize> {
    let runs = commands.iter().try_fold(0usize, |sum, command| sum.checked_add(command.count()?));
    let count = files.iter().try_fold(runs, |count, file| Some(count?.checked_mul(file.count()?))).flatten();
    let count = count.filter(|count| *count <= MOST_POINTS);
    let Some(count) = count else { bail!("there are more than {MOST_POINTS} points") };
    let of_files: usize = files.iter().map(Axes::bytes).sum();
    let of_point = POINT_BYTES + of_files + commands.iter().map(Axes::bytes).max().unwrap_or(0);
    ensure!(
        count.checked_mul(of_point).is_some_and(|bytes| bytes <= MOST_TEXT),
        "{count} points of {of_point} bytes each are more than {} MiB: take fewer values, or a shorter base",
        MOST_TEXT >> 20
    );
    Ok(count)
}

fn point(
    command: &CommandSpace,
    files: &[(String, String)],
    of_files: &Chosen,
    options: Chosen,
) -> Result<Point> {
    let Some(mut words) = shlex::split(&command.run) else {
        bail!("run = \"{}\" of command `{}` has a quote that does not end", command.run, command.name);
    };
    ensure!(
        begins_with_subcommand(&words),
        "run = \"{}\" of command `{}` has to begin with a subcommand of ndp, and not with sweep",
        command.run,
        command.name
    );
    for (option, value) in &options {
        ensure!(!of_files.contains_key(option), "`{option}` is a key and an option");
        match value {
            Value::Boolean(true) => words.push(format!("--{option}")),
            Value::Boolean(false) => {}
            value => words.extend([format!("--{option}"), plain(value)]),
        }
    }
    let mut hasher = Sha256::new();
    let mut eat = |part: &str| {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    eat(env!("CARGO_PKG_VERSION"));
    words.iter().for_each(|word| eat(word));
    for (option, text) in files {
        eat(option);
        eat(text);
    }
    for (name, pointer) in &command.metrics {
        eat(name);
        eat(pointer);
    }
    let hash = hasher.finalize();
    let key = hash.iter().take(KEY_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let metrics = command.metrics.clone();
    let (keys, files) = (of_files.clone(), files.to_vec());
    Ok(Point { key, command: command.name.clone(), words, files, keys, options, metrics, of: None })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Text of a preset for an option, or text of a file.
fn base_text(option: &str, base: &str) -> Result<String> {
    if Path::new(base).extension().is_some_and(|extension| extension == "toml") {
        return ndp_files::read_text(Path::new(base), MOST_BYTES)
            .with_context(|| format!("cannot read base = \"{base}\""));
    }
    let text = match option {
        "--config" => DesignConfig::preset_text(base)?,
        "--memory" => HbmConfig::preset_text(base)?,
        "--system" => SystemConfig::preset_text(base)?,
        _ => bail!("option = \"{option}\" has no presets; base has to be a file that ends in .toml"),
    };
    Ok(text.to_owned())
}

/// Values other than tables, by path. Names have no dots, and the TOML reader limits the depth of tables, so the
/// depth of a path is limited.
fn leaves(table: &Table) -> Result<Chosen> {
    let mut found = Chosen::new();
    for (name, value) in table {
        NameRule::Word.check(name).map_err(|error| refusal!("the key {error}"))?;
        ensure!(!name.contains('.'), "the key '{name}' must have no dots: leave the quotes out");
        match value {
            Value::Table(inner) => {
                let below = leaves(inner)?.into_iter();
                found.extend(below.map(|(path, value)| (format!("{name}.{path}"), value)));
            }
            value => _ = found.insert(name.clone(), value.clone()),
        }
    }
    Ok(found)
}

fn grid_of(table: &Table, what: &str) -> Result<Vec<(String, Vec<Value>)>> {
    let of = |(key, value): (String, Value)| match value {
        Value::Array(values) if !values.is_empty() => Ok((key, values)),
        value => bail!("{what}: `{key} = {value}` has to be a list of values"),
    };
    leaves(table)?.into_iter().map(of).collect()
}

fn set(table: &mut Table, path: &str, value: &Value) -> Result<()> {
    let (mut inner, mut rest) = (table, path);
    while let Some((name, below)) = rest.split_once('.') {
        let entry = inner.entry(name).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(next) = entry else { bail!("`{path}`: `{name}` is a value, not a table") };
        (inner, rest) = (next, below);
    }
    inner.insert(rest.to_owned(), value.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: &str = r#"
        [[files]]
        base = "tiny"
        keys.gemv.multipliers = [16, 32]
        [[files.list]]
        gemv.lanes = 16
        [[commands]]
        name = "product"
        run = "gemv --rows 64 --cols 64 --backend cycles"
        options = { batch = [1, 4], density = [0.1] }
        metrics = { cycles = "/cycles" }
        "#;

    fn refused(text: &str) -> String {
        points(text).map_or_else(|e| format!("{e:#}"), |points| format!("{} points", points.len()))
    }

    #[test]
    fn grids_and_lists_are_multiplied_by_commands_and_options() -> Result<()> {
        let points = points(SPACE)?;
        assert_eq!(points.len(), 6);
        let words: Vec<String> = points.iter().map(|point| point.words[6..].join(" ")).collect();
        assert_eq!(words[..2], ["cycles --batch 1 --density 0.1", "cycles --batch 4 --density 0.1"]);
        for (point, (key, value)) in points.iter().step_by(2).zip([
            ("gemv.multipliers", 16),
            ("gemv.multipliers", 32),
            ("gemv.lanes", 16),
        ]) {
            assert_eq!(point.keys[key], Value::Integer(value));
            let config = DesignConfig::from_toml(&point.files[0].1)?;
            assert_eq!(
                config.gemv().multipliers(),
                if key == "gemv.multipliers" { value as u32 } else { 16 }
            );
        }
        Ok(())
    }

    #[test]
    fn keys_name_what_a_result_depends_on_and_nothing_else() -> Result<()> {
        let keys = |text: &str| -> Result<Vec<String>> {
            Ok(points(text)?.into_iter().map(|point| point.key).collect())
        };
        let all = keys(SPACE)?;
        // The name of a command is for readers only. Another point changes no key.
        assert_eq!(keys(&SPACE.replace("\"product\"", "\"p\""))?, all);
        assert_eq!(keys(&SPACE.replace("[16, 32]", "[32]"))?, all[2..]);
        assert!(keys(&SPACE.replace("--cols 64", "--cols 65"))?.iter().all(|key| !all.contains(key)));
        assert!(keys(&SPACE.replace("/cycles", "/passes"))?.iter().all(|key| !all.contains(key)));
        Ok(())
    }

    #[test]
    fn files_that_points_write_are_named() -> Result<()> {
        let text = SPACE.replace("cycles\"", "run cycles --waves ./a.fst --out=b.npy\"");
        let points = points(&text)?;
        let written = outputs(&points);
        assert_eq!(written[..2], [(0, "waves", "./a.fst"), (0, "out", "b.npy")]);
        assert_eq!((written.len(), written[2].0), (12, 1));
        Ok(())
    }

    #[test]
    fn spaces_that_mean_nothing_are_refused_by_name() {
        for (from, to, message) in [
            ("[16, 32]", "16", "has to be a list of values"),
            ("[16, 32]", "[]", "has to be a list of values"),
            ("[16, 32]", "[16, 16]", "two points are the same"),
            ("\"tiny\"", "\"tinny\"", "did you mean 'tiny'?"),
            ("\"gemv ", "\"--gemv ", "has to begin with a subcommand"),
            ("\"gemv ", "\"sweep ", "has to begin with a subcommand"),
            ("metrics = { cycles = \"/cycles\" }", "metrics = {}", "has no metrics"),
            (
                "\"/cycles\"",
                "\"cycles\"",
                "metric `cycles` = \"cycles\" of command `product` must begin with /",
            ),
            ("base =", "bass =", "bass"),
            ("keys.gemv.multipliers", "keys.name.multipliers", "is a value, not a table"),
            ("keys.gemv.multipliers", "keys.\"gemv.multipliers\"", "must have no dots"),
            ("keys.gemv.multipliers", "keys.\"=gemv\"", "the key '=gemv' must start with"),
            ("\"product\"", "\"a\\u001b[2Jb\"", r"the name of a command, 'a\u001b[2Jb' must start"),
            ("cycles = \"/cycles\"", "\"=1+1\" = \"/cycles\"", "a metric of command `product`, '=1+1'"),
            ("batch = ", "\"b\\nc\" = ", r"the key 'b\nc' must start with"),
            ("--rows 64", "--rows '64", "has a quote that does not end"),
        ] {
            assert!(SPACE.contains(from), "{from}");
            let said = refused(&SPACE.replace(from, to));
            assert!(said.contains(message), "{to}: {said}");
        }
        assert!(refused("commands = []").contains("at least one"));
        let many = format!("{:?}", (0..1001).collect::<Vec<_>>());
        let many = SPACE.replace("[16, 32]", &many).replace("[1, 4]", &many);
        assert!(refused(&many).contains("more than 1000000 points"), "{}", refused(&many));
    }

    #[test]
    fn a_dry_run_names_what_commands_would_refuse() -> Result<()> {
        let of = |from: &str, to: &str| -> Result<Vec<(String, (usize, usize))>> {
            assert!(SPACE.contains(from), "{from}");
            let points = points(&SPACE.replace(from, to))?;
            let all: Vec<usize> = (0..points.len()).collect();
            Ok(refusals(&points, &all).into_iter().collect())
        };
        assert_eq!(of("tiny", "tiny")?, []);
        // Two configurations with 32 multipliers and others without, and two values of an option.
        for (from, to, points, first, message) in [
            ("--cols 64", "--colls 64", 6, 0, "unexpected argument '--colls' found"),
            ("\"gemv --rows", "\"gemmv --rows", 6, 0, "unrecognized subcommand 'gemmv'"),
            ("batch = [1, 4]", "batch = [1, \"x\"]", 3, 1, "invalid value 'x' for '--batch"),
            ("[16, 32]", "[16, 33]", 2, 2, "--config: "),
            (
                "keys.gemv.multipliers = [16, 32]",
                "keys.gemv.multiplyers = [16]",
                2,
                0,
                "unknown field `multiplyers`",
            ),
            (
                "\"/cycles\"",
                "\"/cycels\"",
                6,
                0,
                "no number at /cycels, see `ndp schema gemv`; did you mean '/cycles'?",
            ),
        ] {
            let found = of(from, to)?;
            let [(reason, counts)] = &found[..] else { panic!("{to}: {found:?}") };
            assert!(reason.contains(message), "{to}: {reason}");
            assert_eq!(*counts, (points, first), "{to}: {reason}");
        }
        Ok(())
    }

    #[test]
    fn points_are_counted_before_one_is_made() {
        // 20^40 configurations in a few KB, over files, axes and options.
        let values = format!("{:?}", (0..20).collect::<Vec<_>>());
        let axes: Vec<String> = (0..20).map(|axis| format!("keys.gemv.a{axis} = {values}\n")).collect();
        let file = |axis: usize| format!("[[files]]\nbase = \"tiny\"\nkeys.gemv.a{axis} = {values}\n");
        let command = "[[commands]]\nname = \"p\"\nrun = \"gemv\"\nmetrics.c = \"/cycles\"\n";
        let one = format!("[[files]]\nbase = \"tiny\"\n{}{command}", axes.concat());
        let several = (0..40).map(file).collect::<String>() + command;
        let options = format!("{command}{}", axes.concat().replace("keys.gemv", "options"));
        for text in [&one, &several, &options] {
            assert!(refused(text).contains("more than 1000000 points"), "{}", refused(text));
        }
        let many = (0..65).map(file).collect::<String>() + command;
        assert!(refused(&many).contains("more than 64 [[files]]"), "{}", refused(&many));
        // Few points, each of them long.
        let long = format!("{:?}", (0..1000).map(|n| format!("{n:01000}")).collect::<Vec<_>>());
        let long = format!("{command}options.a = {long}\noptions.b = {:?}\n", (0..900).collect::<Vec<_>>());
        assert!(refused(&long).contains("are more than 512 MiB"), "{}", refused(&long));
    }

    #[test]
    fn words_of_a_command_are_those_of_a_shell() -> Result<()> {
        let points = points(&SPACE.replace("gemv --rows 64", r"gemv --matrix 'a b.npy' --rows\\ x"))?;
        assert_eq!(points[0].words[..4], ["gemv", "--matrix", "a b.npy", "--rows x"]);
        Ok(())
    }
}
